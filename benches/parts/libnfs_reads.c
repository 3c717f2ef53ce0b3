/*
 * Random reads of one file by libnfs, with many outstanding on one connection: what benches/nfs_speed.py compares the
 * engine with. It uses libnfs's raw calls, which cost less than its file API, and its own event loop by poll.
 *
 * Usage: libnfs_reads URL FILE BYTES_OF_FILE SIZE OUTSTANDING SECONDS
 * Prints the completed reads per second.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <nfsc/libnfs.h>
#include <nfsc/libnfs-raw.h>
#include <nfsc/libnfs-raw-nfs.h>

/* What nfs_get_fh() returns; libnfs 4.0 has it in a private header. */
struct nfs_fh {
	int len;
	char *val;
};

static struct rpc_context *rpc;
static nfs_fh3 file;
static uint64_t blocks, random_state = 88172645463325252u, completed;
static uint32_t size;
static int failed, stopping, outstanding;

static double now_s(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void issue(void);

static void done(struct rpc_context *context, int status, void *data, void *private_data)
{
	READ3res *result = data;
	(void)context;
	(void)private_data;
	outstanding--;
	if (status != RPC_STATUS_SUCCESS || result->status != NFS3_OK || result->READ3res_u.resok.count != size) {
		failed = 1;
		return;
	}
	completed++;
	if (!stopping)
		issue();
}

static void issue(void)
{
	READ3args arguments;
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	arguments.file = file;
	arguments.offset = random_state % blocks * size;
	arguments.count = size;
	outstanding++;
	if (rpc_nfs3_read_async(rpc, done, &arguments, NULL) != 0)
		failed = 1;
}

static void serve(struct nfs_context *nfs)
{
	struct pollfd socket = { nfs_get_fd(nfs), (short)nfs_which_events(nfs), 0 };
	if (poll(&socket, 1, 1000) < 0 && errno != EINTR)
		failed = 1;
	else if (nfs_service(nfs, socket.revents) < 0)
		failed = 1;
}

int main(int count, char **words)
{
	if (count != 7) {
		fprintf(stderr, "usage: libnfs_reads URL FILE BYTES_OF_FILE SIZE OUTSTANDING SECONDS\n");
		return 2;
	}
	size = (uint32_t)atoi(words[4]);
	blocks = strtoull(words[3], NULL, 10) / size;
	int depth = atoi(words[5]);
	double seconds = atof(words[6]);
	struct nfs_context *nfs = nfs_init_context();
	struct nfs_url *url = nfs_parse_url_dir(nfs, words[1]);
	if (!url || nfs_mount(nfs, url->server, url->path) != 0) {
		fprintf(stderr, "libnfs_reads: %s: %s\n", words[1], nfs_get_error(nfs));
		return 1;
	}
	rpc = nfs_get_rpc_context(nfs);
	struct nfsfh *opened = NULL;
	if (nfs_open(nfs, words[2], O_RDONLY, &opened) != 0) {
		fprintf(stderr, "libnfs_reads: %s: %s\n", words[2], nfs_get_error(nfs));
		return 1;
	}
	file.data.data_len = (u_int)nfs_get_fh(opened)->len;
	file.data.data_val = nfs_get_fh(opened)->val;
	for (int call = 0; call < depth && !failed; call++)
		issue();
	double start = now_s(), end = start;
	while (end - start < seconds && !failed) {
		serve(nfs);
		end = now_s();
	}
	uint64_t reads = completed;
	stopping = 1;
	while (outstanding > 0 && !failed)
		serve(nfs);
	if (failed) {
		fprintf(stderr, "libnfs_reads: a call failed: %s\n", nfs_get_error(nfs));
		return 1;
	}
	printf("%.0f\n", (double)reads / (end - start));
	return 0;
}
