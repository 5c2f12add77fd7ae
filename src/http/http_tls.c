/* TLS: reads a certificate, its key and the certificates that are trusted, and checks who the client is.
 * libmicrohttpd does the rest with GnuTLS. All files are read and checked before anything listens, so that a
 * mistake is told in words and not by every client's failed handshake; a server that then gives up its
 * privileges needs none of them again.
 *
 * libmicrohttpd asks clients for a certificate but does not check it: http_tls_is_trusted does. A client
 * without one may connect, since /healthz needs no rights. */
#include "http/http_state.h"

#include "hosted/whole_io.h"

#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LARGEST_FILE = 1 << 20 };

/* ---- files */

static int read_open(int fd, const char *path, char **text, struct heft_error *err)
{
	char *bytes = malloc(LARGEST_FILE + 1);
	if (!bytes)
		return heft_fail(err, HEFT_ENOMEM, "not enough memory to read %s", path);
	size_t length = read_whole(fd, bytes, LARGEST_FILE + 1);
	if (length > LARGEST_FILE || memchr(bytes, 0, length)) {
		free(bytes);
		return heft_fail(err, HEFT_EREFUSED, "%s is not a PEM file", path);
	}
	bytes[length] = 0;
	*text = bytes;
	return 0;
}

/* secret: nobody else may read it, apart from the group of the file. */
static int read_text(const char *path, bool secret, char **text, struct heft_error *err)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), rc;
	if (fd < 0 || fstat(fd, &st) < 0)
		rc = heft_fail_errno(err, "cannot read %s", path);
	else if (!S_ISREG(st.st_mode))
		rc = heft_fail(err, HEFT_EREFUSED, "%s is not a file", path);
	else if (secret && st.st_mode & (S_IRWXO | S_IWGRP))
		rc = heft_fail(err, HEFT_EREFUSED,
			       "the key in %s can be read or changed by others\nchmod 600 %s", path,
			       path);
	else
		rc = read_open(fd, path, text, err);
	if (fd >= 0)
		close(fd);
	return rc;
}

static gnutls_datum_t datum(char *text)
{
	return (gnutls_datum_t){(unsigned char *)text, (unsigned)strlen(text)};
}

/* ---- what is in them */

static int check_certificates(char *text, const char *path, struct heft_error *err)
{
	gnutls_datum_t data = datum(text);
	gnutls_x509_crt_t *list = NULL;
	unsigned count = 0;
	int rc = gnutls_x509_crt_list_import2(&list, &count, &data, GNUTLS_X509_FMT_PEM, 0);
	for (unsigned i = 0; rc >= 0 && i < count; i++)
		gnutls_x509_crt_deinit(list[i]);
	gnutls_free(list);
	if (rc < 0 || !count)
		return heft_fail(err, HEFT_EREFUSED, "%s has no certificate in PEM form", path);
	return 0;
}

static int check_key(char *text, const char *path, struct heft_error *err)
{
	gnutls_datum_t data = datum(text);
	gnutls_x509_privkey_t key;
	if (gnutls_x509_privkey_init(&key) < 0)
		return heft_fail(err, HEFT_ENOMEM, "not enough memory for the key");
	int rc = gnutls_x509_privkey_import2(key, &data, GNUTLS_X509_FMT_PEM, NULL, 0);
	gnutls_x509_privkey_deinit(key);
	if (rc == GNUTLS_E_DECRYPTION_FAILED)
		return heft_fail(err, HEFT_EREFUSED,
				 "the key in %s has a passphrase\n"
				 "openssl pkey -in %s -out NEW removes it",
				 path, path);
	if (rc < 0)
		return heft_fail(err, HEFT_EREFUSED, "%s has no private key in PEM form", path);
	return 0;
}

static int check_pair(struct http_tls *t, const struct http_tls_files *f, struct heft_error *err)
{
	gnutls_datum_t cert = datum(t->cert), key = datum(t->key);
	gnutls_certificate_credentials_t both;
	if (gnutls_certificate_allocate_credentials(&both) < 0)
		return heft_fail(err, HEFT_ENOMEM, "not enough memory for the certificate");
	int rc = gnutls_certificate_set_x509_key_mem2(both, &cert, &key, GNUTLS_X509_FMT_PEM, NULL,
						      0);
	gnutls_certificate_free_credentials(both);
	if (rc == GNUTLS_E_CERTIFICATE_KEY_MISMATCH)
		return heft_fail(err, HEFT_EREFUSED,
				 "the key in %s does not belong to the certificate in %s\n"
				 "the server's own certificate must be the first one in its file",
				 f->key, f->cert);
	if (rc < 0)
		return heft_fail(err, HEFT_EREFUSED, "cannot use the certificate in %s: %s",
				 f->cert, gnutls_strerror(rc));
	return 0;
}

int http_tls_read(struct http_tls *t, const struct http_tls_files *f, struct heft_error *err)
{
	*t = (struct http_tls){0};
	if (MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
		return heft_fail(err, HEFT_EREFUSED,
				 "the libmicrohttpd of this system was built without TLS");
	int rc = read_text(f->cert, false, &t->cert, err);
	if (rc == 0)
		rc = check_certificates(t->cert, f->cert, err);
	if (rc == 0)
		rc = read_text(f->key, true, &t->key, err);
	if (rc == 0)
		rc = check_key(t->key, f->key, err);
	if (rc == 0)
		rc = check_pair(t, f, err);
	if (rc == 0 && f->client_ca)
		rc = read_text(f->client_ca, false, &t->client_ca, err);
	if (rc == 0 && f->client_ca)
		rc = check_certificates(t->client_ca, f->client_ca, err);
	if (rc < 0)
		http_tls_fini(t);
	return rc;
}

void http_tls_fini(struct http_tls *t)
{
	if (t->key)
		explicit_bzero(t->key, strlen(t->key));
	free(t->cert);
	free(t->key);
	free(t->client_ca);
	*t = (struct http_tls){0};
}

/* ---- the client's certificate */

static bool is_verified(gnutls_session_t session)
{
	gnutls_typed_vdata_st purpose = {
		.type = GNUTLS_DT_KEY_PURPOSE_OID,
		.data = (unsigned char *)(uintptr_t)GNUTLS_KP_TLS_WWW_CLIENT};
	unsigned count = 0, wrong = ~0u;
	return gnutls_certificate_get_peers(session, &count) && count &&
	       gnutls_certificate_verify_peers(session, &purpose, 1, &wrong) >= 0 && wrong == 0;
}

bool http_tls_is_trusted(struct http_connection *c)
{
	struct client *k = c->client;
	const struct http_tls *t = c->server->o.tls;
	if (k->door->local || !t || !t->client_ca)
		return false;
	if (!k->certificate_checked) { /* only the network's thread of its door comes here */
		const union MHD_ConnectionInfo *info = MHD_get_connection_info(
			c->mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);
		k->certificate_right = info && is_verified(info->tls_session);
		k->certificate_checked = true;
	}
	return k->certificate_right;
}
