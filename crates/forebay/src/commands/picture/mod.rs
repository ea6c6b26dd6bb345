//! Pictures: SVG with a picture's letters and titles, or PNG for where only pixels can be shown. The name of a file decides.
//!
//! A `Drawing` draws itself on a `Canvas` (`svg`, `png`), which is white, with colours that print (`colours`) and axes of round values
//! (`scale`). `letters` and `deflate` are the parts of PNG.

pub mod canvas;
#[cfg(test)]
pub mod checked;
pub mod colours;
mod deflate;
mod letters;
mod png;
pub mod scale;
mod svg;

use std::path::Path;

use canvas::Canvas;
use png::Png;
use svg::Svg;

/// A drawing that knows its size.
pub trait Drawing {
    /// Its width and height.
    fn size(&self) -> (f64, f64);

    /// Draws it.
    fn draw(&self, canvas: &mut dyn Canvas);
}

/// The bytes of a picture's file: PNG if its name ends so, else SVG.
pub fn encoded(drawing: &impl Drawing, path: &Path) -> Vec<u8> {
    let is_png = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("png"));
    let (width, height) = drawing.size();
    if is_png {
        let mut png = Png::new(width, height);
        drawing.draw(&mut png);
        png.encoded()
    } else {
        let mut svg = Svg::default();
        drawing.draw(&mut svg);
        svg.encoded(width, height).into_bytes()
    }
}
