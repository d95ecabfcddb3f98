//! Marks on a page, as SVG.

use std::fmt::Write;

use super::colour;

/// The fill of a time when nothing of ours ran.
pub const HATCH: &str = "url(#hatch)";

pub struct Canvas {
    out: String,
    title: String,
    width: f64,
    height: f64,
}

#[derive(Clone, Copy)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// How text looks.
pub struct Text {
    pub size: f64,
    pub anchor: Anchor,
    pub bold: bool,
    pub fill: &'static str,
    /// Read from below to above.
    pub upright: bool,
}

impl Text {
    pub fn new(size: f64) -> Text {
        Text { size, anchor: Anchor::Start, bold: false, fill: colour::INK, upright: false }
    }
}

impl Canvas {
    pub fn new(width: f64, height: f64) -> Canvas {
        Canvas { out: String::new(), title: String::new(), width, height }
    }

    /// What a screen reader says.
    pub fn title(&mut self, title: &str) {
        self.title = escaped(title);
    }

    pub fn rect(&mut self, x: f64, y: f64, width: f64, height: f64, fill: &str, more: &str) {
        let (x, y, width, height) = (number(x), number(y), number(width), number(height));
        let _ = writeln!(
            self.out,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{fill}\"{more}/>"
        );
    }

    pub fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), stroke: &str) {
        let (x1, y1, x2, y2) = (number(x1), number(y1), number(x2), number(y2));
        let _ =
            writeln!(self.out, "<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" stroke=\"{stroke}\"/>");
    }

    pub fn path(&mut self, d: &str, style: &str) {
        if !d.is_empty() {
            let _ = writeln!(self.out, "<path d=\"{d}\" {style}/>");
        }
    }

    pub fn text(&mut self, x: f64, y: f64, text: &str, look: &Text) {
        let anchor = match look.anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let bold = if look.bold { " font-weight=\"bold\"" } else { "" };
        let (x, y) = (number(x), number(y));
        let turned = if look.upright { format!(" transform=\"rotate(-90 {x} {y})\"") } else { String::new() };
        let _ = writeln!(
            self.out,
            "<text x=\"{x}\" y=\"{y}\" font-size=\"{}\" fill=\"{}\"{anchor}{bold}{turned}>{}</text>",
            number(look.size),
            look.fill,
            escaped(text)
        );
    }

    pub fn finish(self) -> String {
        let (width, height) = (number(self.width), number(self.height));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\" font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\">\n\
             <title>{}</title>\n\
             <defs><pattern id=\"hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" \
             patternTransform=\"rotate(45)\"><rect width=\"6\" height=\"6\" fill=\"#f4f4f4\"/>\
             <rect width=\"2.5\" height=\"6\" fill=\"#9a9a9a\"/></pattern></defs>\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n{}</svg>\n",
            self.title, self.out
        )
    }
}

/// To a tenth of a pixel.
pub fn number(value: f64) -> String {
    let rounded = (value * 10.0).round() / 10.0;
    // Negative zero is zero.
    format!("{}", if rounded == 0.0 { 0.0 } else { rounded })
}

fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            // No control character but these may stand in XML.
            c if c.is_control() && !matches!(c, '\t' | '\n') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
