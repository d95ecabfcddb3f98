//! Comma-separated values: cells may stand in quotes, with `""` for a quote in them.

/// The records of a text, each with its line, from 1; blank lines and lines that begin with `#` are none.
pub fn records(text: &str) -> impl Iterator<Item = (usize, Result<Vec<String>, String>)> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    lines
        .filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'))
        .map(|(number, line)| (number, cells(line)))
}

fn cells(line: &str) -> Result<Vec<String>, String> {
    let mut cells = Vec::new();
    let mut rest = line;
    loop {
        let (cell, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_cell(quoted)?,
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                (rest[..end].to_owned(), &rest[end..])
            }
        };
        cells.push(cell);
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None if after.is_empty() => return Ok(cells),
            None => return Err("there is text after a closing quote".into()),
        }
    }
}

/// A cell up to its closing quote, and what follows.
fn quoted_cell(mut rest: &str) -> Result<(String, &str), String> {
    let mut cell = String::new();
    loop {
        let Some(end) = rest.find('"') else { return Err("a quote is not closed on its line".into()) };
        cell.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(after) => {
                cell.push('"');
                rest = after;
            }
            None => return Ok((cell, rest)),
        }
    }
}
