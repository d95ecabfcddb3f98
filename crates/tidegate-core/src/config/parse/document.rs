//! The text that is read, and what is put over it before it is.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::walk::{Field, Walk};
use crate::config::Config;
use crate::config::check::{check, is_listen_address};
use crate::config::error::{ConfigError, ConfigErrors, Fault, Source};

/// The text of a config file, with values that replace what it says.
///
/// ```
/// use tidegate_core::config::Document;
///
/// let text = "[services.git]\nrequests = \"60/min\"\n";
/// let config = Document::new(text, "tidegate.toml", &|_| None).set("services.git.requests", "90/min").config()?;
/// assert_eq!(config.services["git"].limits.rates[0].rate.units(), 90);
/// # Ok::<(), tidegate_core::config::ConfigErrors>(())
/// ```
pub struct Document<'t> {
    text: &'t str,
    file: &'t str,
    env: &'t dyn Fn(&str) -> Option<String>,
    settings: Vec<Setting>,
}

/// One value from outside of the file.
struct Setting {
    /// As it was given: errors name it.
    origin: String,
    toml: String,
}

impl<'t> Document<'t> {
    /// A text whose `${VAR}` expand through `env`; `file` is only the name that errors give.
    #[must_use]
    pub fn new(text: &'t str, file: &'t str, env: &'t dyn Fn(&str) -> Option<String>) -> Self {
        Document { text, file, env, settings: Vec::new() }
    }

    /// Puts a value where a dotted key says: `services.openai.queue.aging`, and with numbers for the items of
    /// an array `simulation.workload.0.loops`. A value that TOML would not understand is text.
    #[must_use]
    pub fn set(mut self, key: &str, value: &str) -> Self {
        let toml = match DeValue::parse(value) {
            Ok(_) => format!("{key} = {value}"),
            Err(_) => format!("{key} = {}", toml::Value::String(value.into())),
        };
        self.settings.push(Setting { origin: format!("{key}={value}"), toml });
        self
    }

    /// What the text says; a `[simulation]` in it is passed over.
    ///
    /// # Errors
    /// Everything that is wrong with the text, each with its line, column and a hint.
    pub fn config(&self) -> Result<Config, ConfigErrors> {
        self.read(whole)
    }

    /// Returns where the text says to listen, whatever is wrong with the rest of it: a sidecar that runs is found by this
    /// while its file is being edited.
    ///
    /// ```
    /// use tidegate_core::config::Document;
    ///
    /// let text = "listen = \"127.0.0.1:9000\"\n[services.git]\nrequets = \"60/min\"\n[services.";
    /// let document = Document::new(text, "tidegate.toml", &|_| None);
    /// assert!(document.config().is_err());
    /// assert_eq!(document.listen().as_deref(), Some("127.0.0.1:9000"));
    /// ```
    #[must_use]
    pub fn listen(&self) -> Option<String> {
        let (document, _broken) = DeTable::parse_recoverable(self.text);
        let mut walk = Walk::new(self.env);
        let fields = walk.fields("", document.get_ref());
        let listen = walk.string(fields.iter().find(|field| field.name == "listen")?)?;
        is_listen_address(&listen).then_some(listen)
    }

    /// Returns what the text says that is valid and still not what its author expects, each with its line, column and a
    /// hint. A text with errors has no warnings.
    #[must_use]
    pub fn warnings(&self) -> Vec<ConfigError> {
        let found = self.read(|walk, document| {
            let config = whole(walk, document);
            if !walk.faults.is_empty() {
                return Vec::new();
            }
            // The services of a simulation are called by nothing else.
            let simulated = walk.fields("", document).iter().any(|field| field.name == "simulation");
            let warnings = if simulated { config.ignored() } else { config.warnings() };
            warnings.into_iter().for_each(|warning| walk.problem(warning));
            std::mem::take(&mut walk.faults)
        });
        found
            .map(|faults| ConfigErrors::locate(faults, &self.sources()).into_iter().collect())
            .unwrap_or_default()
    }

    /// What the text says, and what `read` makes of its `[simulation]`, if there is one. It gets the config
    /// as far as it could be read, and notes its faults on the walk: those of both are reported together.
    ///
    /// # Errors
    /// As [`Document::config`], and the faults that `read` found.
    pub fn config_and_simulation<T>(
        &self,
        read: impl FnOnce(&mut Walk<'_>, &Config, Option<&Field<'_>>) -> T,
    ) -> Result<(Config, T), ConfigErrors> {
        self.read(|walk, document| {
            let config = whole(walk, document);
            let fields = walk.fields("", document);
            let found = read(walk, &config, fields.iter().find(|field| field.name == "simulation"));
            (config, found)
        })
    }

    /// What `through` finds in the document, unless it found faults.
    pub(super) fn read<T>(
        &self,
        through: impl FnOnce(&mut Walk<'_>, &DeTable<'_>) -> T,
    ) -> Result<T, ConfigErrors> {
        let sources = self.sources();
        let (document, broken) = DeTable::parse_recoverable(self.text);
        if !broken.is_empty() {
            let faults = broken.iter().map(syntax).collect();
            // One slip breaks the rest of its line in more ways: the first is the one to read.
            return Err(ConfigErrors::locate(faults, &sources).first_of_each_line());
        }
        let mut document = document.into_inner();
        let mut walk = Walk::new(self.env);
        let padded = self.padded();
        for setting in &padded {
            match DeTable::parse(setting) {
                Ok(table) => put_table(&mut document, table.into_inner(), &mut walk),
                Err(error) => walk.faults.push(syntax(&error)),
            }
        }
        if !walk.faults.is_empty() {
            return Err(ConfigErrors::locate(walk.faults, &sources));
        }
        let found = through(&mut walk, &document);
        if walk.faults.is_empty() { Ok(found) } else { Err(ConfigErrors::locate(walk.faults, &sources)) }
    }

    /// The file, and behind it the settings.
    fn sources(&self) -> Vec<Source<'_>> {
        let file = Source::File { name: self.file, text: self.text };
        let settings = self
            .settings
            .iter()
            .map(|setting| Source::Setting { name: &setting.origin, length: setting.toml.len() });
        std::iter::once(file).chain(settings).collect()
    }

    /// The settings with blanks before each, so that everything in them has a place of its own, behind the
    /// file's and in the order of the sources.
    fn padded(&self) -> Vec<String> {
        let mut start = self.text.len() + 1;
        let mut padded = Vec::new();
        for setting in &self.settings {
            padded.push(" ".repeat(start) + &setting.toml);
            start += setting.toml.len() + 1;
        }
        padded
    }
}

fn whole(walk: &mut Walk<'_>, document: &DeTable<'_>) -> Config {
    let config = walk.config(document);
    for problem in check(&config) {
        walk.problem(problem);
    }
    config
}

fn put_table<'d>(into: &mut DeTable<'d>, from: DeTable<'d>, walk: &mut Walk<'_>) {
    for (key, value) in from {
        match into.get_mut(key.get_ref().as_ref()) {
            Some(old) => put(old, value, walk),
            None => drop(into.insert(key, value)),
        }
    }
}

/// Puts a value over another: tables key by key, arrays item by item, anything else as a whole.
fn put<'d>(old: &mut Spanned<DeValue<'d>>, new: Spanned<DeValue<'d>>, walk: &mut Walk<'_>) {
    let span = new.span();
    match (old.get_mut(), new.into_inner()) {
        (DeValue::Table(old), DeValue::Table(new)) => put_table(old, new, walk),
        (DeValue::Array(items), DeValue::Table(new)) => {
            for (key, value) in new {
                let item = key.get_ref().parse::<usize>().ok();
                match item.and_then(|index| items.get_mut(index)) {
                    Some(old) => put(old, value, walk),
                    None => {
                        let hint = match items.len() {
                            0 => "there are none".to_owned(),
                            count => format!("they are numbered from 0 to {}", count - 1),
                        };
                        walk.fault(key.span().start, format!("there is no item `{}`", key.get_ref()), hint);
                    }
                }
            }
        }
        (_, new) => *old = Spanned::new(span, new),
    }
}

/// Broken TOML in the form of every other error.
fn syntax(error: &toml::de::Error) -> Fault {
    let message = error.message();
    let hint = if message.contains("duplicate key") {
        Some("keep one of the two")
    } else if message.contains("quoted") {
        Some("put text in quotes, such as \"500/min\"")
    } else {
        None
    };
    Fault {
        at: error.span().map_or(0, |span| span.start),
        message: format!("not valid TOML: {}", message.replace('\n', ", ")),
        hint: hint.map(str::to_owned),
    }
}
