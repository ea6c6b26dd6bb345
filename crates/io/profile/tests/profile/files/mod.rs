//! Profiles and packs as files: real files of real owners, on disks that are full, with writers at the same time.

// Tests may panic: that is how they fail.
mod bounds;
mod faults;
mod packs;
mod place;
mod trust;
