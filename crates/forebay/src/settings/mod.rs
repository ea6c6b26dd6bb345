//! The user's settings, from four sources: options, the environment, a configuration file, defaults; in this order.
//!
//! Sources are merged as text, each value with its origin, so that `forebay config` can show where a value comes from
//! and an error can name the place to mend. A value is read only by the command that uses it: a mistake in the
//! environment must not keep `down` from ending a job.

mod arguments;
mod environment;
mod file;
mod given;
mod log_filter;
mod quantities;
mod relative;
mod table;
pub mod values;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Context;

pub use arguments::{GivenForJob, GivenForNode, GivenForProfile, GivenForReport, GivenForUp};
pub use environment::warn_of_unknown;
pub use given::{Given, Origin, UsageError};
pub use relative::made_absolute;
pub use table::{How, Setting, Settings, TABLE, Texts};

/// The text of every setting that has one, with its origin.
#[derive(Clone, Debug)]
pub struct Effective {
    values: BTreeMap<&'static str, (Vec<String>, Origin)>,
}

impl Effective {
    /// Merges the sources.
    ///
    /// # Errors
    /// `UsageError` when the configuration file cannot be used.
    pub fn merge(given: Given, config: Option<PathBuf>) -> anyhow::Result<Self> {
        Self::merge_with(given, config, &|name| std::env::var_os(name))
    }

    /// The same with the environment that `variable` tells of.
    pub fn merge_with(
        given: Given,
        config: Option<PathBuf>,
        variable: &dyn Fn(&str) -> Option<OsString>,
    ) -> anyhow::Result<Self> {
        let mut values = Self::defaults().values;
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let config = config.or_else(|| set("FOREBAY_CONFIG").map(PathBuf::from));
        if let Some(path) = config {
            let text = std::fs::read_to_string(&path)
                .with_context(|| format!("cannot read the configuration file {}", path.display()))?;
            for (key, texts, line) in file::parse(&text, &path)? {
                values.insert(key, (absolute(key, texts), Origin::File { path: path.clone(), line }));
            }
        }
        for setting in TABLE {
            let mut names = [Some(setting.variable()), setting.old_variable()].into_iter().flatten();
            if let Some((variable, value)) = names.find_map(|name| set(&name).map(|value| (name, value))) {
                let (text, is_text) = (value.to_string_lossy().into_owned(), value.to_str().is_some());
                let texts = match setting.how {
                    How::Many => text.split(':').filter(|part| !part.is_empty()).map(str::to_owned).collect(),
                    _ => vec![text],
                };
                let texts = absolute(setting.key, texts);
                values.insert(setting.key, (texts, Origin::Environment { variable, is_text }));
            }
        }
        values.extend(given.into_iter().map(|(key, texts)| (key, (texts, Origin::Option))));
        Ok(Self { values })
    }

    /// The settings of a daemon: the job spec of its `up`, which is complete, and the options it was called with.
    ///
    /// # Errors
    /// `UsageError` when the job spec has a setting that this program does not know: it is of another version.
    pub fn ordered(spec: &BTreeMap<String, Vec<String>>, given: Given) -> anyhow::Result<Self> {
        let mut values = Self::defaults().values;
        for (key, texts) in spec {
            let setting = Setting::of(key).ok_or_else(|| {
                UsageError(format!("the job spec has a setting '{key}' that this version does not know"))
            })?;
            values.insert(setting.key, (texts.clone(), Origin::JobSpec));
        }
        values.extend(given.into_iter().map(|(key, texts)| (key, (texts, Origin::Option))));
        Ok(Self { values })
    }

    fn defaults() -> Self {
        let default = |setting: &Setting| Some((setting.key, (vec![(setting.default)()?], Origin::Default)));
        Self { values: TABLE.iter().filter_map(default).collect() }
    }

    /// The texts of `key` and their origin; `None` when it has none.
    pub fn get(&self, key: &str) -> Option<&(Vec<String>, Origin)> {
        self.values.get(key)
    }

    /// The values that somebody gave, as text.
    pub fn given(&self) -> BTreeMap<String, Vec<String>> {
        let given = self.values.iter().filter(|(_, (_, origin))| *origin != Origin::Default);
        given.map(|(key, (texts, _))| ((*key).to_owned(), texts.clone())).collect()
    }

    /// The name of the job, where one was given.
    ///
    /// # Errors
    /// `UsageError` when it cannot be one.
    pub fn job(&self) -> Result<Option<String>, UsageError> {
        let Some(text) = self.text("job")? else {
            return Ok(None);
        };
        values::job_name(text).map(Some).map_err(|problem| self.blame("job", &problem))
    }

    /// Where jobs are kept, where that was given.
    ///
    /// # Errors
    /// `UsageError` when it cannot be a directory.
    pub fn directory(&self) -> Result<Option<PathBuf>, UsageError> {
        let Some(text) = self.text("directory")? else {
            return Ok(None);
        };
        values::absolute_path(text).map(Some).map_err(|problem| self.blame("directory", &problem))
    }

    /// Where profiles lie, where that was given, and how much they may take.
    ///
    /// # Errors
    /// `UsageError` when one of the two makes no sense.
    pub fn profiles(&self) -> Result<(Option<PathBuf>, u64), UsageError> {
        let directory = self.text("profile-dir")?.map(values::absolute_path).transpose();
        let directory = directory.map_err(|problem| self.blame("profile-dir", &problem))?;
        let budget = self.text("profile-budget")?.map_or(Ok(0), values::size);
        Ok((directory, budget.map_err(|problem| self.blame("profile-budget", &problem))?))
    }

    /// Where reports lie: as given to this command, else as the job was started with.
    ///
    /// # Errors
    /// `UsageError` when it is no place.
    pub fn report(&self, of_job: Option<&str>) -> Result<values::ReportChoice, UsageError> {
        let own = self.text("report")?.filter(|_| self.get("report").is_some_and(|(_, from)| *from != Origin::Default));
        let text = own.or(of_job).unwrap_or("auto");
        values::report(text).map_err(|problem| self.blame("report", &problem))
    }

    /// Takes a directive of the job's script, where no option says otherwise. Several of a kind add up, where that is possible.
    pub fn add_directive(&mut self, key: &'static str, text: String, origin: Origin) {
        let is_many = Setting::of(key).is_some_and(|setting| setting.how == How::Many);
        match self.values.get_mut(key) {
            Some((_, Origin::Option)) => {}
            Some((texts, Origin::File { path, .. }))
                if is_many && matches!(&origin, Origin::File { path: of, .. } if of == path) =>
            {
                texts.push(text);
            }
            _ => drop(self.values.insert(key, (vec![text], origin))),
        }
    }

    /// Reads all values.
    ///
    /// # Errors
    /// `UsageError` with the place where the wrong one was given.
    pub fn settings(&self) -> Result<Settings, UsageError> {
        self.values.keys().try_for_each(|key| self.check_text(key))?;
        let texts: Texts = self.values.iter().map(|(key, (texts, _))| (*key, texts.clone())).collect();
        Settings::from_texts(&texts).map_err(|(key, problem)| self.blame(key, &problem))
    }

    /// The last text of `key`, where it has one.
    fn text(&self, key: &'static str) -> Result<Option<&str>, UsageError> {
        self.check_text(key)?;
        Ok(self.get(key).and_then(|(texts, _)| texts.last()).map(String::as_str))
    }

    fn check_text(&self, key: &'static str) -> Result<(), UsageError> {
        match self.get(key) {
            Some((texts, Origin::Environment { is_text: false, .. })) => {
                Err(self.blame(key, &format!("'{}' is not UTF-8; settings are text", texts.join(":"))))
            }
            Some((texts, _)) => texts
                .iter()
                .try_for_each(|text| made_absolute(key, text).map(drop))
                .map_err(|problem| self.blame(key, &problem)),
            None => Ok(()),
        }
    }

    /// The error of a value, with where it was given.
    pub fn blame(&self, key: &'static str, problem: &str) -> UsageError {
        UsageError(match self.get(key).map(|(_, origin)| origin) {
            Some(Origin::Environment { variable, .. }) => format!("the environment variable {variable}: {problem}"),
            Some(Origin::File { path, line }) => format!("{}, line {line}, {key}: {problem}", path.display()),
            _ => format!("the option --{key}: {problem}"),
        })
    }
}

/// A path that cannot be made absolute stays, and is refused where it is read.
fn absolute(key: &str, texts: Vec<String>) -> Vec<String> {
    texts.into_iter().map(|text| made_absolute(key, &text).unwrap_or(text)).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    fn merged(given: &[(&'static str, &str)], file: &str, environment: &[(&str, &str)]) -> anyhow::Result<Effective> {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("forebay.toml");
        std::fs::write(&path, file).unwrap();
        let variable = |name: &str| environment.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into());
        let given = given.iter().map(|(key, text)| (*key, vec![(*text).to_owned()])).collect();
        Effective::merge_with(given, Some(path), &variable)
    }

    #[test]
    fn options_beat_the_environment_beats_the_file_beats_defaults() {
        let file = "fanout = 5\nreaders = 6\nlog = \"warn\"\n";
        let environment = [("FOREBAY_FANOUT", "7"), ("FOREBAY_READERS", "8")];
        let effective = merged(&[("fanout", "9")], file, &environment).unwrap();
        let shown = |key| effective.get(key).map(|(texts, origin)| (texts[0].clone(), origin.word())).unwrap();
        assert_eq!(shown("fanout"), ("9".to_owned(), "option"));
        assert_eq!(shown("readers"), ("8".to_owned(), "environment"));
        assert_eq!(shown("log"), ("warn".to_owned(), "file"));
        assert_eq!(shown("deadline"), ("30s".to_owned(), "default"));
        assert_eq!(effective.settings().unwrap().fan_out, Some(9));
    }

    #[test]
    fn a_wrong_value_is_blamed_on_its_source() {
        let message = |effective: Effective| effective.settings().unwrap_err().to_string();
        let file = merged(&[], "\nfanout = 0\n", &[]).unwrap();
        assert!(message(file).contains("forebay.toml, line 2, fanout: '0'"));
        let environment = merged(&[], "", &[("FOREBAY_FANOUT", "many")]).unwrap();
        assert!(message(environment).starts_with("the environment variable FOREBAY_FANOUT: 'many'"));
        let named_of_old = merged(&[], "", &[("FOREBAY_ANTICIPATE", "maybe")]).unwrap();
        assert!(message(named_of_old).starts_with("the environment variable FOREBAY_ANTICIPATE: 'maybe'"));
    }

    #[test]
    fn a_variable_that_is_no_text_is_refused_where_it_is_read() {
        let export = |given| {
            let variable = |name: &str| (name == "FOREBAY_EXPORT").then(|| OsString::from_vec(b"/w\xff".to_vec()));
            Effective::merge_with(given, None, &variable).unwrap()
        };
        assert!(export(Given::new()).job().is_ok(), "the job's name is another setting");
        let refused = export(Given::new()).settings().unwrap_err().to_string();
        assert!(refused.starts_with("the environment variable FOREBAY_EXPORT: '/w\u{fffd}' is not UTF-8"), "{refused}");
        let given = Given::from([("export", vec!["/a".to_owned()])]);
        assert_eq!(export(given).settings().unwrap().export, [PathBuf::from("/a")], "the option counts");
    }

    #[test]
    fn names_of_before_are_understood_everywhere() {
        let environment = [("FOREBAY_MISSING", "go-on")];
        let settings = merged(&[], "anticipate = false\n", &environment).unwrap().settings().unwrap();
        assert_eq!((settings.on_missing.word(), settings.prefetch), ("continue", false));
        let unset = [("FOREBAY_MISSING", "go-on"), ("FOREBAY_ON_MISSING", "")];
        assert_eq!(
            merged(&[], "", &unset).unwrap().settings().unwrap().on_missing.word(),
            "continue",
            "an empty one is none"
        );
        let both = [("FOREBAY_MISSING", "go-on"), ("FOREBAY_ON_MISSING", "fail")];
        assert_eq!(
            merged(&[], "", &both).unwrap().settings().unwrap().on_missing.word(),
            "fail",
            "today's name counts"
        );
    }

    #[test]
    fn repeated_values_come_from_every_source() {
        let file = merged(&[], "export = [\"/a\", \"/b\"]", &[]).unwrap();
        assert_eq!(file.settings().unwrap().export.len(), 2);
        let environment = merged(&[], "export = \"/x\"", &[("FOREBAY_EXPORT", "/a:/b:/c")]).unwrap();
        assert_eq!(environment.settings().unwrap().export.len(), 3);
    }

    #[test]
    fn an_order_is_complete_and_of_this_version() {
        let spec = BTreeMap::from([("fanout".to_owned(), vec!["3".to_owned()])]);
        let effective = Effective::ordered(&spec, Given::new()).unwrap();
        assert_eq!(effective.settings().unwrap().fan_out, Some(3));
        let spec = BTreeMap::from([("no-such".to_owned(), vec![])]);
        assert!(Effective::ordered(&spec, Given::new()).unwrap_err().to_string().contains("'no-such'"));
    }
}
