/* The visibility of writes among ranks of several nodes, without MPI_File_sync:
 *   visible FILE barrier BYTES COUNT   each rank writes COUNT blocks of BYTES, passes a barrier, reads its neighbour's
 *   visible FILE close BYTES COUNT     all write collectively and close; rank 0 opens the file at once and reads all
 * Exit status 3 where old bytes are read. Rank 0 prints the seconds of the slowest rank's writes. FILE may begin with ROMIO's `nfs:`. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks, bytes, count;

static void check(int outcome, const char *what) {
	if (outcome == MPI_SUCCESS)
		return;
	char text[MPI_MAX_ERROR_STRING];
	int length;
	MPI_Error_string(outcome, text, &length);
	fprintf(stderr, "rank %d: %s: %s\n", rank, what, text);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static MPI_Offset place(int of, int block) { return ((MPI_Offset)block * ranks + of) * bytes; }

static unsigned char value(int of, int block) { return (unsigned char)(1 + (of * 7 + block) % 251); }

static long wrong_in(const unsigned char *buffer, unsigned char expected) {
	long wrong = 0;
	for (int i = 0; i < bytes; i++)
		wrong += buffer[i] != expected;
	return wrong;
}

int main(int argc, char **argv) {
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (argc != 5) {
		fprintf(stderr, "usage: visible FILE barrier|close BYTES COUNT\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	int closes = !strcmp(argv[2], "close");
	bytes = atoi(argv[3]);
	count = atoi(argv[4]);
	unsigned char *buffer = malloc(bytes);
	long wrong = 0, all = 0;
	MPI_File file;
	check(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file), "open");
	MPI_Barrier(MPI_COMM_WORLD);
	double began = MPI_Wtime();
	for (int block = 0; block < count; block++) {
		memset(buffer, value(rank, block), bytes);
		if (closes)
			check(MPI_File_write_at_all(file, place(rank, block), buffer, bytes, MPI_BYTE, MPI_STATUS_IGNORE), "write");
		else
			check(MPI_File_write_at(file, place(rank, block), buffer, bytes, MPI_BYTE, MPI_STATUS_IGNORE), "write");
	}
	double took = MPI_Wtime() - began, slowest;
	if (closes) {
		check(MPI_File_close(&file), "close");
		if (rank == 0) {
			check(MPI_File_open(MPI_COMM_SELF, argv[1], MPI_MODE_RDONLY, MPI_INFO_NULL, &file), "open again");
			for (int block = 0; block < count * ranks; block++) {
				memset(buffer, 0, bytes);
				check(MPI_File_read_at(file, (MPI_Offset)block * bytes, buffer, bytes, MPI_BYTE, MPI_STATUS_IGNORE), "read");
				wrong += wrong_in(buffer, value(block % ranks, block / ranks));
			}
			check(MPI_File_close(&file), "close again");
		}
	} else {
		MPI_Barrier(MPI_COMM_WORLD);
		int neighbour = (rank + 1) % ranks;
		for (int block = 0; block < count; block++) {
			memset(buffer, 0, bytes);
			check(MPI_File_read_at(file, place(neighbour, block), buffer, bytes, MPI_BYTE, MPI_STATUS_IGNORE), "read");
			wrong += wrong_in(buffer, value(neighbour, block));
		}
		check(MPI_File_close(&file), "close");
	}
	MPI_Allreduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	MPI_Reduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("%.4f seconds, %ld bytes wrong\n", slowest, all);
	free(buffer);
	MPI_Finalize();
	return all ? 3 : 0;
}
