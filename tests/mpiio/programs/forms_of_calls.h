/* Every form of call with a count, as FORM(name) names it; their places in the file begin at FIRST. */

static void PART(blocking)(void) {
    MPI_Status status;
    int i = FIRST;
    fill(i), CHECK(FORM(write_at_all)(fh, place(i), buf, N, MPI_BYTE, &status)), expect_count(&status, N);
    fill(i + 1), CHECK(FORM(write_at)(fh, place(i + 1), buf, N, MPI_BYTE, &status)), expect_count(&status, N);
    CHECK(MPI_File_seek(fh, place(i + 2), MPI_SEEK_SET));
    fill(i + 2), CHECK(FORM(write_all)(fh, buf, N, MPI_BYTE, &status)), expect_count(&status, N);
    expect_position(place(i + 2) + N);
    CHECK(MPI_File_seek(fh, place(i + 3), MPI_SEEK_SET));
    fill(i + 3), CHECK(FORM(write)(fh, buf, N, MPI_BYTE, &status)), expect_count(&status, N);
    expect_position(place(i + 3) + N);
    /* A rank reads what it has just written, held or not. */
    for (int form = i; form < i + 4; form++) expect_own(form);
    hold(i + 4), memset(got, 0, N), CHECK(FORM(read_at)(fh, place(i + 4), got, N, MPI_BYTE, &status));
    expect_count(&status, N), expect_read(i + 4);
    hold(i + 5), memset(got, 0, N), CHECK(FORM(read_at_all)(fh, place(i + 5), got, N, MPI_BYTE, &status));
    expect_count(&status, N), expect_read(i + 5);
    CHECK(MPI_File_seek(fh, place(i + 6), MPI_SEEK_SET));
    hold(i + 6), memset(got, 0, N), CHECK(FORM(read)(fh, got, N, MPI_BYTE, &status));
    expect_count(&status, N), expect_read(i + 6), expect_position(place(i + 6) + N);
    CHECK(MPI_File_seek(fh, place(i + 7), MPI_SEEK_SET));
    hold(i + 7), memset(got, 0, N), CHECK(FORM(read_all)(fh, got, N, MPI_BYTE, &status));
    expect_count(&status, N), expect_read(i + 7), expect_position(place(i + 7) + N);
}

static void PART(split)(void) {
    MPI_Status status;
    int i = FIRST + 8;
    fill(i), CHECK(FORM(write_at_all_begin)(fh, place(i), buf, N, MPI_BYTE));
    CHECK(MPI_File_write_at_all_end(fh, buf, &status)), expect_count(&status, N);
    CHECK(MPI_File_seek(fh, place(i + 1), MPI_SEEK_SET));
    fill(i + 1), CHECK(FORM(write_all_begin)(fh, buf, N, MPI_BYTE));
    CHECK(MPI_File_write_all_end(fh, buf, &status)), expect_count(&status, N);
    expect_position(place(i + 1) + N);
    memset(got, 0, N), CHECK(FORM(read_at_all_begin)(fh, place(i), got, N, MPI_BYTE));
    CHECK(MPI_File_read_at_all_end(fh, got, &status)), expect_count(&status, N), expect_read(i);
    CHECK(MPI_File_seek(fh, place(i + 1), MPI_SEEK_SET));
    memset(got, 0, N), CHECK(FORM(read_all_begin)(fh, got, N, MPI_BYTE));
    CHECK(MPI_File_read_all_end(fh, got, &status)), expect_count(&status, N), expect_read(i + 1);
    expect_position(place(i + 1) + N);
}

static void PART(non_blocking)(void) {
    MPI_Request request;
    int i = FIRST + 10;
    fill(i), CHECK(FORM(iwrite_at)(fh, place(i), buf, N, MPI_BYTE, &request)), wait_for(&request);
    fill(i + 1), CHECK(FORM(iwrite_at_all)(fh, place(i + 1), buf, N, MPI_BYTE, &request)), wait_for(&request);
    CHECK(MPI_File_seek(fh, place(i + 2), MPI_SEEK_SET));
    fill(i + 2), CHECK(FORM(iwrite)(fh, buf, N, MPI_BYTE, &request)), wait_for(&request);
    CHECK(MPI_File_seek(fh, place(i + 3), MPI_SEEK_SET));
    fill(i + 3), CHECK(FORM(iwrite_all)(fh, buf, N, MPI_BYTE, &request)), wait_for(&request);
    expect_position(place(i + 3) + N);
    hold(i + 4), memset(got, 0, N), CHECK(FORM(iread_at)(fh, place(i + 4), got, N, MPI_BYTE, &request));
    wait_for(&request), expect_read(i + 4);
    hold(i + 5), memset(got, 0, N), CHECK(FORM(iread_at_all)(fh, place(i + 5), got, N, MPI_BYTE, &request));
    wait_for(&request), expect_read(i + 5);
    CHECK(MPI_File_seek(fh, place(i + 6), MPI_SEEK_SET));
    hold(i + 6), memset(got, 0, N), CHECK(FORM(iread)(fh, got, N, MPI_BYTE, &request));
    wait_for(&request), expect_read(i + 6);
    CHECK(MPI_File_seek(fh, place(i + 7), MPI_SEEK_SET));
    hold(i + 7), memset(got, 0, N), CHECK(FORM(iread_all)(fh, got, N, MPI_BYTE, &request));
    wait_for(&request), expect_read(i + 7);
    for (int form = i; form < i + 4; form++) expect_own(form);
}

/* Before each call bytes are held at the very place that it is to write, or to read: the call finds them, and comes after them. */
static void PART(shared)(void) {
    MPI_Status status;
    MPI_Request request;
    int i = FIRST + 18;
    hold(i), seek_shared(i), fill(i + 1);
    CHECK(FORM(write_ordered)(fh, buf, N, MPI_BYTE, &status)), expect_count(&status, N);
    hold(i + 1), seek_shared(i + 1), fill(i + 2);
    CHECK(FORM(write_ordered_begin)(fh, buf, N, MPI_BYTE));
    CHECK(MPI_File_write_ordered_end(fh, buf, &status)), expect_count(&status, N);
    hold(i + 2), seek_shared(i + 2);
    IN_TURN fill(i + 3), CHECK(FORM(write_shared)(fh, buf, N, MPI_BYTE, &status)), expect_count(&status, N);
    hold(i + 3), seek_shared(i + 3);
    IN_TURN fill(i + 4), CHECK(FORM(iwrite_shared)(fh, buf, N, MPI_BYTE, &request)), wait_for(&request);
    hold(i + 4), seek_shared(i + 4), memset(got, 0, N);
    CHECK(FORM(read_ordered)(fh, got, N, MPI_BYTE, &status)), expect_count(&status, N), expect_read(i + 4);
    hold(i + 5), seek_shared(i + 5), memset(got, 0, N);
    CHECK(FORM(read_ordered_begin)(fh, got, N, MPI_BYTE));
    CHECK(MPI_File_read_ordered_end(fh, got, &status)), expect_count(&status, N), expect_read(i + 5);
    hold(i + 6), seek_shared(i + 6), memset(got, 0, N);
    IN_TURN CHECK(FORM(read_shared)(fh, got, N, MPI_BYTE, &status)), expect_count(&status, N), expect_read(i + 6);
    hold(i + 7), seek_shared(i + 7), memset(got, 0, N);
    IN_TURN CHECK(FORM(iread_shared)(fh, got, N, MPI_BYTE, &request)), wait_for(&request), expect_read(i + 7);
    /* The end of the file counts what is held: all ranks begin to read at the last form's bytes. */
    hold(i + 8);
    CHECK(MPI_File_seek_shared(fh, -(MPI_Offset)ranks * N, MPI_SEEK_END)), memset(got, 0, N);
    CHECK(FORM(read_ordered)(fh, got, N, MPI_BYTE, &status)), expect_count(&status, N), expect_read(i + 8);
}
