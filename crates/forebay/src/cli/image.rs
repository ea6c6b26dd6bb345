//! Options of `run` for programs in an image. They are called as in `ch-run(1)` where they do the same.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser, ValueParser};
use forebay_keeper::images::Bind;

/// Options of `run` for images.
#[derive(Args, Debug)]
#[command(next_help_heading = "Containers")]
pub struct ImageArguments {
    /// Run the command in this image, a directory or a SquashFS file below an export; the image is read-only
    #[arg(long, value_name = "PATH", conflicts_with = "view")]
    pub image: Option<PathBuf>,
    /// Bind this file or directory of the host into the container, at DST if given; repeatable
    #[arg(short, long, value_name = "SRC[:DST]", requires = "image", value_parser = binds())]
    pub bind: Vec<Bind>,
    /// Working directory in the container [default: the current directory, which is bound]
    #[arg(short, long, value_name = "DIR", requires = "image")]
    pub cd: Option<PathBuf>,
    /// Do not bind the home directory into the container
    #[arg(long, requires = "image")]
    pub no_home: bool,
    /// Set this variable, or those in FILE (of the host); without a value those in /ch/environment of the image; repeatable
    #[arg(long, value_name = "FILE|NAME=VALUE", requires = "image", num_args = 0..=1, require_equals = true,
          default_missing_value = "", value_parser = variables())]
    pub set_env: Vec<SetEnv>,
    /// Unset the variables whose names match, before those of --set-env; * is any text, ? any character; repeatable
    #[arg(long, value_name = "GLOB", requires = "image")]
    pub unset_env: Vec<String>,
}

/// Which variables are set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SetEnv {
    /// Those that the image names.
    OfImage,
    /// Those in a file of the host.
    File(PathBuf),
    /// One.
    One(OsString, OsString),
}

impl SetEnv {
    fn parse(text: &OsStr) -> Self {
        let bytes = text.as_bytes();
        let part = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        match bytes.iter().position(|byte| *byte == b'=') {
            _ if bytes.is_empty() => Self::OfImage,
            Some(at) if at > 0 => Self::One(part(&bytes[..at]), part(&bytes[at + 1..])),
            _ => Self::File(text.into()),
        }
    }
}

fn binds() -> ValueParser {
    OsStringValueParser::new().try_map(|text| Bind::parse(&text)).into()
}

fn variables() -> ValueParser {
    OsStringValueParser::new().map(|text| SetEnv::parse(&text)).into()
}
