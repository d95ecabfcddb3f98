//! Columns of text that line up.

/// Rows of cells, the first row being the header. The first column is aligned to the left, all others to the
/// right.
#[derive(Debug, Default)]
pub struct Grid {
    rows: Vec<Vec<String>>,
}

impl Grid {
    /// Adds a row.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// The lines, each with an end.
    #[must_use]
    pub fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or_default()
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut out = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (index, cell) in row.iter().enumerate() {
                let width = widths[index];
                line += &if index == 0 { format!("{cell:width$}") } else { format!("  {cell:>width$}") };
            }
            out += line.trim_end();
            out.push('\n');
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_by_what_is_seen_and_not_by_bytes() {
        let mut grid = Grid::default();
        grid.row(["who", "wait"]);
        grid.row(["é", "12 µs"]);
        grid.row(["user", "1"]);
        assert_eq!(grid.text(), "who    wait\né     12 µs\nuser      1\n");
    }
}
