//! The table as options of the commands.
//!
//! clap shows, checks and collects the texts; defaults and the environment are not told to it as such, since the order
//! of the sources is decided in one place and the origin of every value must be known.

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

use super::given::Given;
use super::relative::made_absolute;
use super::table::{How, Scope, Setting, TABLE};
use super::values;

/// One type of given texts a set of scopes: clap asks the type which options there are.
macro_rules! given {
    ($($(#[doc = $help:literal])+ $name:ident: $($scope:ident)|+;)*) => { $(
        $(#[doc = $help])+
        #[derive(Clone, Default, Debug)]
        pub struct $name(pub Given);

        impl Args for $name {
            fn augment_args(command: Command) -> Command {
                augment(command, |scope| matches!(scope, $(Scope::$scope)|+))
            }

            fn augment_args_for_update(command: Command) -> Command {
                Self::augment_args(command)
            }
        }

        impl FromArgMatches for $name {
            fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
                Ok(Self(collect(matches)))
            }

            fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
                self.0.extend(collect(matches));
                Ok(())
            }
        }
    )* };
}

given! {
    /// The options of every command that deals with a job.
    GivenForJob: Job;
    /// The options of `node`.
    GivenForNode: Job | Node | Profile;
    /// The options of `up`.
    GivenForUp: Job | Node | Up | Profile | Report;
    /// The options of `down` and `report`.
    GivenForReport: Job | Report;
    /// The options of `profile`.
    GivenForProfile: Profile;
}

fn augment(command: Command, has: impl Fn(Scope) -> bool) -> Command {
    command.args(TABLE.iter().filter(|setting| has(setting.scope)).flat_map(|setting| match setting.how {
        How::Switch => switch(setting),
        _ => vec![argument(setting)],
    }))
}

/// A switch has no value: `--KEY` switches it on, `--no-KEY` off, and the last one counts. The help has the one that changes
/// something; the other is for whoever has changed it in the environment or a file, and `--KEY BOOL` is the form of before.
fn switch(setting: &'static Setting) -> Vec<Arg> {
    let is_on = is_on_by_default(setting);
    let off = off(setting);
    let long = |id: String| Arg::new(id.clone()).long(id).help_heading(setting.heading).help(setting.help.trim());
    let check = |text: &str| values::switch(text).map(|on| on.to_string());
    let on = long(setting.key.to_owned()).aliases(setting.old_key()).overrides_with(off.clone()).hide(is_on);
    let on = match is_on {
        true => on.num_args(0..=1).default_missing_value("true").value_parser(ValueParser::new(check)),
        false => on.action(ArgAction::SetTrue),
    };
    let off = long(off).action(ArgAction::SetTrue).overrides_with(setting.key).hide(!is_on);
    vec![on, off]
}

fn is_on_by_default(setting: &Setting) -> bool {
    (setting.default)().is_some_and(|default| default == "true")
}

fn off(setting: &Setting) -> String {
    format!("no-{}", setting.key)
}

fn argument(setting: &'static Setting) -> Arg {
    let default = (setting.default)();
    let default = default.map(|default| format!(" [default: {default}]")).unwrap_or_default();
    let help = format!("{}{default}", setting.help.trim());
    let argument = Arg::new(setting.key).long(setting.key).help_heading(setting.heading).help(help);
    let argument = match setting.key {
        // The name that this rule has in the file systems users come from.
        "direct-above" => argument.visible_alias("cacheable"),
        _ => argument,
    };
    let argument = argument.aliases(setting.old_key());
    let check = move |text: &str| {
        let text = made_absolute(setting.key, text)?;
        (setting.check)(&text).map(|()| text)
    };
    let action = if setting.how == How::Many { ArgAction::Append } else { ArgAction::Set };
    argument.action(action).value_name(setting.value).value_parser(ValueParser::new(check))
}

fn collect(matches: &ArgMatches) -> Given {
    let texts = |setting: &Setting| -> Option<Vec<String>> {
        let is_set = |id: &str| matches.try_get_one::<bool>(id).ok().flatten().copied().unwrap_or(false);
        if setting.how == How::Switch && (is_set(setting.key) || is_set(&off(setting))) {
            return Some(vec![is_set(setting.key).to_string()]);
        }
        Some(matches.try_get_many::<String>(setting.key).ok().flatten()?.cloned().collect())
    };
    TABLE.iter().filter_map(|setting| Some((setting.key, texts(setting)?))).collect()
}
