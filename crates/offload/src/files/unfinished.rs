//! A file that is whole when it is found. Until then it has no name, so that nothing of it stays, whichever way its program ends. Where a
//! file system has no such files, it has a temporary name, which only a program that is killed leaves.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use rustix::fs::{AtFlags, CWD, OFlags, linkat};

/// See the module.
#[derive(Debug)]
pub struct Unfinished {
    output: PathBuf,
    file: File,
    /// Its temporary name, if it has one.
    name: Option<PathBuf>,
}

impl Unfinished {
    /// One that is to be `output`, of this mode, whatever the umask; without one as the umask has it.
    ///
    /// # Errors
    /// It cannot be made there.
    pub fn create(output: &Path, mode: Option<u32>) -> anyhow::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(mode.unwrap_or(0o666));
        let without_name = options.clone().custom_flags(OFlags::TMPFILE.bits().cast_signed()).open(directory(output));
        let unfinished = match without_name {
            Ok(file) => Self { output: output.to_owned(), file, name: None },
            Err(_) => {
                let name = temporary(output);
                let file = options.create_new(true).open(&name).with_context(|| not_written(output))?;
                Self { output: output.to_owned(), file, name: Some(name) }
            }
        };
        if let Some(mode) = mode {
            unfinished.file.set_permissions(Permissions::from_mode(mode)).with_context(|| not_written(output))?;
        }
        Ok(unfinished)
    }

    /// Appends to it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&mut self, text: &[u8]) -> anyhow::Result<()> {
        self.file.write_all(text).with_context(|| not_written(&self.output))
    }

    /// The file, for those that write it as they like.
    ///
    /// # Errors
    /// There are no more descriptors.
    pub fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Gives it its name, durably.
    ///
    /// # Errors
    /// It cannot have it.
    pub fn finish(mut self) -> anyhow::Result<()> {
        let finished = self.named();
        finished.with_context(|| not_written(&self.output))
    }

    fn named(&mut self) -> io::Result<()> {
        self.file.sync_all()?;
        if self.name.is_none() {
            // A name that is taken is replaced by a rename alone.
            let name = temporary(&self.output);
            let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            let linked = linkat(CWD, own, CWD, &name, AtFlags::SYMLINK_FOLLOW);
            if linked.is_err() {
                let mut copy = OpenOptions::new().write(true).create_new(true).open(&name)?;
                self.name = Some(name.clone());
                self.file.rewind()?;
                io::copy(&mut self.file, &mut copy)?;
                copy.set_permissions(self.file.metadata()?.permissions())?;
                copy.sync_all()?;
            }
            self.name = Some(name);
        }
        if let Some(name) = &self.name {
            fs::rename(name, &self.output)?;
        }
        self.name = None;
        match File::open(directory(&self.output))?.sync_all() {
            // A file system that cannot make names durable does it anyway, or never.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            synced => synced,
        }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // That it cannot be removed changes nothing.
            let _ = fs::remove_file(name);
        }
    }
}

fn directory(output: &Path) -> &Path {
    output.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn temporary(output: &Path) -> PathBuf {
    let name = output.file_name().unwrap_or_default().to_string_lossy();
    output.with_file_name(format!(".{name}.{}.part", std::process::id()))
}

fn not_written(output: &Path) -> String {
    format!("{} cannot be written", output.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_its_name_when_it_is_whole_and_else_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let names = || fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();
        let output = directory.path().join("out.csv");
        drop(Unfinished::create(&output, None).unwrap());
        assert!(names().is_empty());
        for text in ["one\n", "two\n"] {
            let before = names();
            let mut file = Unfinished::create(&output, Some(0o640)).unwrap();
            file.write(text.as_bytes()).unwrap();
            // Files without names are had on every file system that tests run on.
            assert_eq!(names(), before);
            file.finish().unwrap();
            assert_eq!(names(), ["out.csv"]);
            assert_eq!(fs::read_to_string(&output).unwrap(), text);
            assert_eq!(output.metadata().unwrap().permissions().mode() & 0o777, 0o640);
        }
        let into_a_directory = Unfinished::create(&directory.path().join("."), None).and_then(Unfinished::finish);
        assert!(into_a_directory.unwrap_err().to_string().contains("cannot be written"));
        assert_eq!(names(), ["out.csv"]);
    }
}
