! fortran_forms FILE [collective]: every form of MPI-IO's calls from Fortran, by the module mpi, or mpi_f08 (with F08). What is read must
! be what was written just before by a collective call, which may be held still. Without non-blocking collective calls where the second argument says so.
program fortran_forms
#ifdef F08
  use mpi_f08
#else
  use mpi
#endif
  implicit none
  integer, parameter :: n = 500
#ifdef F08
  type(MPI_File) :: fh
  type(MPI_Status) :: status
  type(MPI_Request) :: request
#else
  integer :: fh, request, status(MPI_STATUS_SIZE)
#endif
  integer :: rank, ranks, ierr, part = 0, turn
  double precision :: values(n), back(n)
  character(len=256) :: name, without
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  call get_command_argument(1, name)
  call get_command_argument(2, without)
  call MPI_File_open(MPI_COMM_WORLD, name, ior(MPI_MODE_CREATE, MPI_MODE_RDWR), MPI_INFO_NULL, fh, ierr)
  call MPI_File_set_errhandler(fh, MPI_ERRORS_ARE_FATAL, ierr)

  call next(.false.)
  call MPI_File_write(fh, values, n, MPI_DOUBLE_PRECISION, status, ierr)
  call wrote
  call next(.false.)
  call MPI_File_write_at(fh, offset(), values, n, MPI_DOUBLE_PRECISION, status, ierr)
  call wrote
  call next(.false.)
  call MPI_File_write_all(fh, values, n, MPI_DOUBLE_PRECISION, status, ierr)
  call wrote
  call next(.false.)
  call MPI_File_write_at_all(fh, offset(), values, n, MPI_DOUBLE_PRECISION, status, ierr)
  call wrote
  call next(.false.)
  call MPI_File_write_all_begin(fh, values, n, MPI_DOUBLE_PRECISION, ierr)
  call MPI_File_write_all_end(fh, values, status, ierr)
  call wrote
  call next(.false.)
  call MPI_File_write_at_all_begin(fh, offset(), values, n, MPI_DOUBLE_PRECISION, ierr)
  call MPI_File_write_at_all_end(fh, values, status, ierr)
  call wrote
  call next(.false.)
  call MPI_File_write_ordered(fh, values, n, MPI_DOUBLE_PRECISION, status, ierr)
  call wrote
  call next(.false.)
  call MPI_File_write_ordered_begin(fh, values, n, MPI_DOUBLE_PRECISION, ierr)
  call MPI_File_write_ordered_end(fh, values, status, ierr)
  call wrote
  call next(.false.)
  do turn = 0, ranks - 1
    if (turn == rank) call MPI_File_write_shared(fh, values, n, MPI_DOUBLE_PRECISION, status, ierr)
    call MPI_Barrier(MPI_COMM_WORLD, ierr)
  end do
  call wrote
  call next(.false.)
  do turn = 0, ranks - 1
    if (turn == rank) call MPI_File_iwrite_shared(fh, values, n, MPI_DOUBLE_PRECISION, request, ierr)
    if (turn == rank) call MPI_Wait(request, status, ierr)
    call MPI_Barrier(MPI_COMM_WORLD, ierr)
  end do
  call wrote
  call next(.false.)
  call MPI_File_iwrite(fh, values, n, MPI_DOUBLE_PRECISION, request, ierr)
  call MPI_Wait(request, status, ierr)
  call wrote
  call next(.false.)
  call MPI_File_iwrite_at(fh, offset(), values, n, MPI_DOUBLE_PRECISION, request, ierr)
  call MPI_Wait(request, status, ierr)
  call wrote

  call next(.true.)
  call MPI_File_read(fh, back, n, MPI_DOUBLE_PRECISION, status, ierr)
  call got
  call next(.true.)
  call MPI_File_read_at(fh, offset(), back, n, MPI_DOUBLE_PRECISION, status, ierr)
  call got
  call next(.true.)
  call MPI_File_read_all(fh, back, n, MPI_DOUBLE_PRECISION, status, ierr)
  call got
  call next(.true.)
  call MPI_File_read_at_all(fh, offset(), back, n, MPI_DOUBLE_PRECISION, status, ierr)
  call got
  call next(.true.)
  call MPI_File_read_all_begin(fh, back, n, MPI_DOUBLE_PRECISION, ierr)
  call MPI_File_read_all_end(fh, back, status, ierr)
  call got
  call next(.true.)
  call MPI_File_read_at_all_begin(fh, offset(), back, n, MPI_DOUBLE_PRECISION, ierr)
  call MPI_File_read_at_all_end(fh, back, status, ierr)
  call got
  call next(.true.)
  call MPI_File_read_ordered(fh, back, n, MPI_DOUBLE_PRECISION, status, ierr)
  call got
  call next(.true.)
  call MPI_File_read_ordered_begin(fh, back, n, MPI_DOUBLE_PRECISION, ierr)
  call MPI_File_read_ordered_end(fh, back, status, ierr)
  call got
  call next(.true.)
  do turn = 0, ranks - 1
    if (turn == rank) call MPI_File_read_shared(fh, back, n, MPI_DOUBLE_PRECISION, status, ierr)
    call MPI_Barrier(MPI_COMM_WORLD, ierr)
  end do
  call got
  call next(.true.)
  do turn = 0, ranks - 1
    if (turn == rank) call MPI_File_iread_shared(fh, back, n, MPI_DOUBLE_PRECISION, request, ierr)
    if (turn == rank) call MPI_Wait(request, status, ierr)
    call MPI_Barrier(MPI_COMM_WORLD, ierr)
  end do
  call got
  call next(.true.)
  call MPI_File_iread(fh, back, n, MPI_DOUBLE_PRECISION, request, ierr)
  call MPI_Wait(request, status, ierr)
  call got
  call next(.true.)
  call MPI_File_iread_at(fh, offset(), back, n, MPI_DOUBLE_PRECISION, request, ierr)
  call MPI_Wait(request, status, ierr)
  call got

  if (without /= 'collective') then
    call next(.false.)
    call MPI_File_iwrite_all(fh, values, n, MPI_DOUBLE_PRECISION, request, ierr)
    call MPI_Wait(request, status, ierr)
    call wrote
    call next(.false.)
    call MPI_File_iwrite_at_all(fh, offset(), values, n, MPI_DOUBLE_PRECISION, request, ierr)
    call MPI_Wait(request, status, ierr)
    call wrote
    call next(.true.)
    call MPI_File_iread_all(fh, back, n, MPI_DOUBLE_PRECISION, request, ierr)
    call MPI_Wait(request, status, ierr)
    call got
    call next(.true.)
    call MPI_File_iread_at_all(fh, offset(), back, n, MPI_DOUBLE_PRECISION, request, ierr)
    call MPI_Wait(request, status, ierr)
    call got
  end if
  call MPI_File_close(fh, ierr)
  call MPI_Finalize(ierr)
contains
  integer(kind=MPI_OFFSET_KIND) function offset()
    offset = int(part, MPI_OFFSET_KIND) * ranks * n * 8 + rank * n * 8
  end function

  ! The next part of the file, at which both file pointers are; with values in it that may be held where it is to be read.
  subroutine next(is_read)
    logical, intent(in) :: is_read
    integer :: i
    part = part + 1
    values = [(part * 1d6 + rank * 1d3 + i, i = 1, n)]
    back = 0
    call MPI_File_seek(fh, offset(), MPI_SEEK_SET, ierr)
    call MPI_File_seek_shared(fh, int(part, MPI_OFFSET_KIND) * ranks * n * 8, MPI_SEEK_SET, ierr)
    if (is_read) call MPI_File_write_at_all(fh, offset(), values, n, MPI_DOUBLE_PRECISION, MPI_STATUS_IGNORE, ierr)
    call settle
  end subroutine

  ! A rank may be back from a collective call of Open MPI's own I/O before its aggregator has written the rank's bytes.
  subroutine settle
    call MPI_Barrier(MPI_COMM_WORLD, ierr)
  end subroutine

  subroutine wrote
    call expect_count
    call settle
    call MPI_File_read_at(fh, offset(), back, n, MPI_DOUBLE_PRECISION, MPI_STATUS_IGNORE, ierr)
    if (any(back /= values)) call failed
  end subroutine

  subroutine got
    call expect_count
    if (any(back /= values)) call failed
  end subroutine

  subroutine expect_count
    integer :: there
    call MPI_Get_count(status, MPI_DOUBLE_PRECISION, there, ierr)
    if (there /= n) call failed
  end subroutine

  subroutine failed
    print *, 'rank', rank, 'part', part
    call MPI_Abort(MPI_COMM_WORLD, 1, ierr)
  end subroutine
end program fortran_forms
