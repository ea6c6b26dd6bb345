//! Programs in images that the tier shows (`forebay run --image`), as root and as anybody else. The images are made of this
//! machine's own programs.

#![allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]

mod bed;
mod directories;
mod python;
mod refusals;
mod squashfs;

/// Two tests of one function: a job of root's, who needs no user namespace, and one of a user's.
macro_rules! for_root_and_a_user {
    ($(#[doc = $doc:literal])? $name:ident $(, [$($need:expr),*])?) => {
        mod $name {
            #[test]
            fn as_root() {
                forebay_tests::require!(Fuse, Root, Command("busybox") $($(, $need)*)?);
                super::$name(crate::bed::Bed::up(forebay_tests::Sandbox::new(), &[]));
            }

            #[test]
            fn as_a_user() {
                forebay_tests::require!(
                    Fuse, Root, FuseForUsers, Command("fusermount3"), Command("busybox") $($(, $need)*)?
                );
                super::$name(crate::bed::Bed::up(forebay_tests::Sandbox::of_nobody(), &[]));
            }
        }
    };
}
pub(crate) use for_root_and_a_user;
