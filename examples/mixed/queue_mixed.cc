/* The queue without backpressure across two languages: this C++ program sends messages through a
 * Rust library (outbox.rs, linked statically), whose background thread delivers them one by one.
 *
 * A message exists twice: the string that C++ builds, gone as soon as it was sent, and the copy
 * that Rust makes of it, which waits in the channel. Avoiding the first one looks worthwhile and
 * changes nothing.
 *
 *     queue_mixed [--bound N] [--messages N] [--payload BYTES] [--service-us N]
 */
#include "outbox.h"

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

class MessageProducer
{
public:
	MessageProducer(size_t bound, uint64_t service_us) : outbox(outbox_new(bound, service_us))
	{
		if (!outbox)
			throw std::runtime_error("no thread");
	}
	MessageProducer(const MessageProducer &) = delete;
	MessageProducer &operator=(const MessageProducer &) = delete;
	~MessageProducer()
	{
		if (outbox)
			outbox_finish(outbox);
	}

	[[gnu::noinline]] void SendMessage(const std::string &message)
	{
		if (!send_message(outbox, message.data(), message.size()))
			throw std::runtime_error("the outbox is closed");
	}

	size_t Finish()
	{
		struct outbox *o = outbox;

		outbox = nullptr;
		return outbox_finish(o);
	}

private:
	struct outbox *outbox;
};

[[gnu::noinline]] static std::string ComposeMessage(size_t length)
{
	return std::string(length, 'x');
}

int main(int argc, char **argv)
{
	size_t bound = 0, messages = 5000, payload = 1024, service_us = 100;

	for (int i = 1; i < argc; i += 2) {
		std::string option = argv[i];
		size_t *number = option == "--bound"        ? &bound
				 : option == "--messages"   ? &messages
				 : option == "--payload"    ? &payload
				 : option == "--service-us" ? &service_us
							    : nullptr;

		if (!number || i + 1 == argc) {
			std::fprintf(stderr, "usage: queue_mixed [--bound N] [--messages N] "
					     "[--payload BYTES] [--service-us N]\n");
			return 2;
		}
		*number = std::strtoul(argv[i + 1], nullptr, 10);
	}
	try {
		MessageProducer producer(bound, service_us);

		for (size_t i = 0; i < messages; i++)
			producer.SendMessage(ComposeMessage(payload));
		std::printf("%zu messages sent\n", producer.Finish());
	} catch (const std::exception &e) {
		std::fprintf(stderr, "queue_mixed: %s\n", e.what());
		return 1;
	}
	return 0;
}
