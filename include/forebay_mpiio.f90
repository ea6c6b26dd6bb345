! Forebay: the C interface of forebay_mpiio.h, for Fortran. Communicators and hints are integers, as in mpif.h and the module
! mpi (with mpi_f08: comm%MPI_VAL). Compile it with the program.
module forebay_mpiio
  use, intrinsic :: iso_c_binding
  implicit none
  private
  public :: forebay_mpiio_open, forebay_mpiio_declare, forebay_mpiio_write, forebay_mpiio_read, forebay_mpiio_flush, &
            forebay_mpiio_finalise

  interface
    integer(c_int) function open_f(comm, path, amode, info, file) bind(c, name='forebay_mpiio_open_f')
      import :: c_int, c_char, c_ptr
      integer(c_int), value :: comm, amode, info
      character(kind=c_char), intent(in) :: path(*)
      type(c_ptr), intent(out) :: file
    end function open_f

    ! Collective. All extents, in bytes, that this rank will write until the next flush.
    integer(c_int) function forebay_mpiio_declare(file, count, offsets, lengths) bind(c)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: file
      integer(c_int), value :: count
      integer(c_int64_t), intent(in) :: offsets(*), lengths(*)
    end function forebay_mpiio_declare

    ! The bytes are copied: c_loc of a variable with the target attribute.
    integer(c_int) function forebay_mpiio_write(file, offset, bytes, length) bind(c)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: file, bytes
      integer(c_int64_t), value :: offset, length
    end function forebay_mpiio_write

    ! Filled by the next flush. `there` is c_null_ptr, or c_loc of an integer(c_int64_t).
    integer(c_int) function forebay_mpiio_read(file, offset, bytes, length, there) bind(c)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: file, bytes, there
      integer(c_int64_t), value :: offset, length
    end function forebay_mpiio_read

    ! Collective.
    integer(c_int) function forebay_mpiio_flush(file) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: file
    end function forebay_mpiio_flush

    ! Collective.
    integer(c_int) function forebay_mpiio_finalise(file) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: file
    end function forebay_mpiio_finalise
  end interface

contains

  ! Collective.
  integer function forebay_mpiio_open(comm, path, amode, info, file) result(code)
    integer, intent(in) :: comm, amode, info
    character(len=*), intent(in) :: path
    type(c_ptr), intent(out) :: file
    code = open_f(comm, trim(path)//c_null_char, amode, info, file)
  end function forebay_mpiio_open
end module forebay_mpiio
