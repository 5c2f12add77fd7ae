// C++ queues: jobs whose destructors free their parts, taken by a function that never calls free itself.
// argv[1]: "batch" (one queue), "stages" (the first stage is slow, the second frees).
#include <condition_variable>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <pthread.h>

struct Job {
	std::string name;
	std::vector<char> body;
	explicit Job(int number)
	    : name("a name that is longer than the small string"), body(1000, (char)number)
	{
	}
	__attribute__((noinline)) ~Job()
	{
	}
};

class Queue
{
	std::mutex lock;
	std::condition_variable filled;
	std::deque<std::unique_ptr<Job>> jobs;

public:
	__attribute__((noinline)) void push(std::unique_ptr<Job> job)
	{
		std::lock_guard<std::mutex> held(lock);
		jobs.push_back(std::move(job));
		filled.notify_one();
	}
	__attribute__((noinline)) std::unique_ptr<Job> pop()
	{
		std::unique_lock<std::mutex> held(lock);
		filled.wait(held, [this] { return !jobs.empty(); });
		std::unique_ptr<Job> job = std::move(jobs.front());
		jobs.pop_front();
		return job;
	}
};

static const int JOBS = 3000;
static Queue in, out;

__attribute__((noinline)) static std::unique_ptr<Job> make_job(int number)
{
	return std::make_unique<Job>(number);
}

__attribute__((noinline)) static void work()
{
	std::this_thread::sleep_for(std::chrono::microseconds(60));
}

__attribute__((noinline)) static void consume_batch(Queue &queue, bool slow)
{
	for (int i = 0; i < JOBS; i++) {
		std::unique_ptr<Job> job = queue.pop();
		if (slow)
			work();
	}
}

__attribute__((noinline)) static void encode_all()
{
	for (int i = 0; i < JOBS; i++) {
		std::unique_ptr<Job> job = in.pop();
		work();
		out.push(std::move(job));
	}
}

int main(int argc, char **argv)
{
	bool stages = argc > 1 && !strcmp(argv[1], "stages");
	std::thread last([stages] {
		pthread_setname_np(pthread_self(), "last");
		consume_batch(stages ? out : in, !stages);
	});
	std::thread first;
	if (stages)
		first = std::thread([] {
			pthread_setname_np(pthread_self(), "encoder");
			encode_all();
		});
	for (int i = 0; i < JOBS; i++)
		in.push(make_job(i));
	if (stages)
		first.join();
	last.join();
}
