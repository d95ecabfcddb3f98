//! Sweeps: the values of keys and the seeds that differ from run to run.

use std::str::FromStr;

/// One sweep: `services.openai.queue.aging=10s,30s,60s`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sweep {
    key: String,
    values: Vec<String>,
}

impl FromStr for Sweep {
    type Err = String;

    fn from_str(text: &str) -> Result<Sweep, String> {
        let (key, values) = outside(text, '=')
            .first()
            .map(|at| (&text[..*at], &text[at + 1..]))
            .ok_or("write KEY=VALUE,VALUE")?;
        let (key, values) = (key.trim(), split(values));
        if key.is_empty() {
            return Err("there is no key before the `=`".into());
        }
        if values.iter().any(String::is_empty) {
            return Err("a value is empty: write \"\" for an empty text".into());
        }
        Ok(Sweep { key: key.to_owned(), values })
    }
}

/// Returns every combination, with the last sweep varying fastest. Without sweeps there is one empty combination.
pub fn combinations(sweeps: &[Sweep]) -> Vec<Vec<(String, String)>> {
    sweeps.iter().fold(vec![Vec::new()], |so_far, sweep| {
        let with = |settings: &Vec<(String, String)>, value: &String| {
            let mut settings = settings.clone();
            settings.push((sweep.key.clone(), value.clone()));
            settings
        };
        so_far
            .iter()
            .flat_map(|settings| sweep.values.iter().map(move |value| with(settings, value)))
            .collect()
    })
}

/// A range of seeds, both ends included: `1..20`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seeds {
    first: u64,
    last: u64,
}

impl Seeds {
    pub fn one(seed: u64) -> Seeds {
        Seeds { first: seed, last: seed }
    }

    pub fn all(&self) -> impl Iterator<Item = u64> + use<> {
        self.first..=self.last
    }
}

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Seeds, String> {
        let wrong = || "write the first and the last seed, such as 1..20".to_owned();
        let (first, last) = text.split_once("..").ok_or_else(wrong)?;
        let number = |text: &str| text.trim().parse::<u64>().map_err(|_| wrong());
        let seeds = Seeds { first: number(first)?, last: number(last)? };
        if seeds.first > seeds.last { Err(wrong()) } else { Ok(seeds) }
    }
}

/// Splits values at commas that are not inside of an array, a table or quotes.
fn split(text: &str) -> Vec<String> {
    let mut values = Vec::new();
    let mut from = 0;
    for at in outside(text, ',') {
        values.push(text[from..at].trim().to_owned());
        from = at + 1;
    }
    values.push(text[from..].trim().to_owned());
    values
}

/// Returns the positions of a character outside of brackets and quotes.
fn outside(text: &str, wanted: char) -> Vec<usize> {
    let (mut places, mut depth, mut quote) = (Vec::new(), 0_i32, None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth -= 1,
            (None, c) if c == wanted && depth == 0 => places.push(at),
            _ => {}
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(text: &str) -> Sweep {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn values_end_at_commas_that_are_not_inside_of_something() {
        assert_eq!(sweep("a.b=10s, 30s").values, ["10s", "30s"]);
        assert_eq!(
            sweep("a=[1,2],{ x = 1, y = 2 },\"a,b\"").values,
            ["[1,2]", "{ x = 1, y = 2 }", "\"a,b\""]
        );
        let quoted = sweep("models.\"a=b\".tokens=30k/min");
        assert_eq!((quoted.key.as_str(), quoted.values.len()), ("models.\"a=b\".tokens", 1));
        assert!(
            "a".parse::<Sweep>().is_err()
                && "=1".parse::<Sweep>().is_err()
                && "a=1,,2".parse::<Sweep>().is_err()
        );
    }

    #[test]
    fn two_sweeps_give_their_product() {
        let found = combinations(&[sweep("a=1,2"), sweep("b=x,y")]);
        let found: Vec<String> = found
            .iter()
            .map(|settings| settings.iter().map(|(key, value)| format!("{key}{value}")).collect())
            .collect();
        assert_eq!(found, ["a1bx", "a1by", "a2bx", "a2by"]);
        assert_eq!(combinations(&[]), [Vec::new()]);
    }

    #[test]
    fn seeds_include_both_ends() {
        let seeds: Seeds = "3..5".parse().unwrap();
        assert_eq!(seeds.all().collect::<Vec<_>>(), [3, 4, 5]);
        assert!("5..3".parse::<Seeds>().is_err() && "5".parse::<Seeds>().is_err());
    }
}
