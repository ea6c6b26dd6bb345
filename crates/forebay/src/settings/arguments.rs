//! The table as options of the commands.
//!
//! clap shows, checks and collects the texts; defaults and the environment are not told to it as such, since the order
//! of the sources is decided in one place and the origin of every value must be known.

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

use super::given::Given;
use super::table::{How, Scope, Setting, TABLE};

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
    GivenForUp: Job | Node | Up | Profile;
    /// The options of `profile`.
    GivenForProfile: Profile;
}

fn augment(command: Command, has: impl Fn(Scope) -> bool) -> Command {
    command.args(TABLE.iter().filter(|setting| has(setting.scope)).map(argument))
}

fn argument(setting: &'static Setting) -> Arg {
    let default = (setting.default)().filter(|_| setting.how != How::Switch);
    let default = default.map(|default| format!(" [default: {default}]")).unwrap_or_default();
    let help = format!("{}{default}", setting.help.trim());
    let argument = Arg::new(setting.key).long(setting.key).help_heading(setting.heading).help(help);
    let argument = match setting.key {
        // The name that this rule has in the file systems users come from.
        "direct-above" => argument.visible_alias("cacheable"),
        _ => argument,
    };
    let argument = argument.aliases(setting.old_key());
    let check = move |text: &str| (setting.check)(text).map(|()| text.to_owned());
    match setting.how {
        How::Switch => argument.action(ArgAction::SetTrue),
        How::Many => argument.action(ArgAction::Append).value_name(setting.value).value_parser(ValueParser::new(check)),
        How::One | How::Optional => {
            argument.action(ArgAction::Set).value_name(setting.value).value_parser(ValueParser::new(check))
        }
    }
}

fn collect(matches: &ArgMatches) -> Given {
    let texts = |setting: &Setting| -> Option<Vec<String>> {
        if setting.how == How::Switch {
            let set = matches.try_get_one::<bool>(setting.key).ok().flatten().copied().unwrap_or(false);
            return set.then(|| vec!["true".to_owned()]);
        }
        Some(matches.try_get_many::<String>(setting.key).ok().flatten()?.cloned().collect())
    };
    TABLE.iter().filter_map(|setting| Some((setting.key, texts(setting)?))).collect()
}
