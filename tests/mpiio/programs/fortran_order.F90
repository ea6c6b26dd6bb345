! fortran_order FILE: as order.c, by Fortran's names: zeros over the neighbour's blocks by collective calls, a barrier, each its own
! blocks. MODULE is `mpi`, `mpi_f08`, or none for mpif.h.
program order
#ifdef MODULE
   use MODULE
#endif
   implicit none
#ifndef MODULE
   include 'mpif.h'
#endif
   integer, parameter :: block = 1000, calls = 6
   integer :: rank, ranks, ierror, call, turn
   integer(kind=mpi_offset_kind) :: place
   character(len=4096) :: name
   character :: zeros(block), own(block), found(block)
#ifdef HANDLES
   type(mpi_file) :: file
   type(mpi_request) :: request
#else
   integer :: file, request
#endif
   call mpi_init(ierror)
   call mpi_comm_rank(mpi_comm_world, rank, ierror)
   call mpi_comm_size(mpi_comm_world, ranks, ierror)
   call get_command_argument(1, name)
   zeros = char(0)
   own = char(1 + rank)
   call mpi_file_open(mpi_comm_world, trim(name), mpi_mode_create + mpi_mode_rdwr, mpi_info_null, file, ierror)
   do call = 0, calls - 1
      place = int(call * ranks + mod(rank + 1, ranks), mpi_offset_kind) * block
      call mpi_file_write_at_all(file, place, zeros, block, mpi_byte, mpi_status_ignore, ierror)
   end do
   call mpi_ibarrier(mpi_comm_world, request, ierror)
   call mpi_wait(request, mpi_status_ignore, ierror)
   do turn = 1, 0, -1
      if (mod(rank, 2) == turn) then
         do call = 0, calls - 1
            place = int(call * ranks + rank, mpi_offset_kind) * block
            call mpi_file_write_at(file, place, own, block, mpi_byte, mpi_status_ignore, ierror)
         end do
      end if
      call mpi_barrier(mpi_comm_world, ierror)
   end do
   do call = 0, calls - 1
      place = int(call * ranks + rank, mpi_offset_kind) * block
      call mpi_file_read_at(file, place, found, block, mpi_byte, mpi_status_ignore, ierror)
      if (any(found /= own)) then
         print *, 'rank', rank, 'call', call, 'is not as it was written'
         call mpi_abort(mpi_comm_world, 1, ierror)
      end if
   end do
   call mpi_file_close(file, ierror)
   call mpi_finalize(ierror)
end program order
