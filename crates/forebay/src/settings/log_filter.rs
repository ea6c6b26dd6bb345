//! The text form of a filter of log events: a level, and levels of modules.

use tracing_subscriber::filter::{EnvFilter, LevelFilter};

/// A filter of log events: `info`, `debug,forebay_fuse=trace`. The filter itself takes a word that is no level for the name of a module,
/// and would log nothing else.
pub fn log_filter(text: &str) -> Result<String, String> {
    let known = |directive: &str| {
        let (module, level) =
            directive.rsplit_once('=').map_or((None, directive), |(module, level)| (Some(module), level));
        let level = if level.eq_ignore_ascii_case("warning") { "warn" } else { level };
        if level.is_empty() || level.parse::<LevelFilter>().is_err() {
            return Err(format!(
                "'{level}' is not a log level; the levels are error, warn, info, debug, trace and off, also for a module: \
                 info,forebay_fuse=debug"
            ));
        }
        Ok(module.map_or_else(|| level.to_owned(), |module| format!("{module}={level}")))
    };
    let filter = text.split(',').map(|directive| known(directive.trim())).collect::<Result<Vec<_>, _>>()?.join(",");
    match filter.parse::<EnvFilter>() {
        Ok(_) => Ok(filter),
        Err(error) => Err(format!("'{text}' is not a log filter ({error}); write for example info or debug")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_no_level_is_refused() {
        for filter in ["info", "debug,forebay_fuse=trace", "off"] {
            assert_eq!(log_filter(filter).unwrap(), filter);
        }
        assert!(log_filter("a=nonsense").is_err());
        for silent in ["foo", "verbose", "", "info,", "info,forebay_fuse", "forebay_fuse="] {
            let problem = log_filter(silent).unwrap_err();
            assert!(
                problem.contains("is not a log level; the levels are error, warn, info, debug, trace"),
                "{silent}: {problem}"
            );
        }
        assert_eq!(log_filter("warning").unwrap(), "warn");
        assert_eq!(log_filter("info, forebay_fuse=warning").unwrap(), "info,forebay_fuse=warn");
    }
}
