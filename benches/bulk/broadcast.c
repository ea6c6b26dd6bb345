/* broadcast FILE...: what sbcast does, by MPI. Rank 0 reads the files block by block, the next while one is sent; all others get each block by
 * MPI_Bcast, and write it to /dev/null. Rank 0 prints the seconds until the last rank has all. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BLOCK_BYTES (8 << 20)

static void fail(const char *what) {
  perror(what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

/* A whole block, or what the file has left; the kernel begins to read the next one. */
static int read_block(int file, char *block) {
  int total = 0;
  while (total < BLOCK_BYTES) {
    ssize_t count = read(file, block + total, BLOCK_BYTES - total);
    if (count < 0) fail("read");
    if (count == 0) break;
    total += (int)count;
  }
  posix_fadvise(file, lseek(file, 0, SEEK_CUR), BLOCK_BYTES, POSIX_FADV_WILLNEED);
  return total;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, out = open("/dev/null", O_WRONLY);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  char *block = malloc(BLOCK_BYTES);
  if (out < 0 || !block) fail("broadcast");
  MPI_Barrier(MPI_COMM_WORLD);
  double began = MPI_Wtime();
  long long bytes = 0;
  for (int index = 1; index < argc; index++) {
    int file = rank == 0 ? open(argv[index], O_RDONLY) : -1, count;
    if (rank == 0 && file < 0) fail(argv[index]);
    do {
      if (rank == 0) count = read_block(file, block);
      MPI_Bcast(&count, 1, MPI_INT, 0, MPI_COMM_WORLD);
      if (count) MPI_Bcast(block, count, MPI_BYTE, 0, MPI_COMM_WORLD);
      if (count && write(out, block, count) != count) fail("write");
      bytes += count;
    } while (count == BLOCK_BYTES);
    if (rank == 0) close(file);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) printf("{\"seconds\": %.4f, \"bytes\": %lld}\n", MPI_Wtime() - began, bytes);
  MPI_Finalize();
  return 0;
}
