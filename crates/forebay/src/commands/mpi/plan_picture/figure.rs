//! The frame that drawings of networks share.

use crate::commands::picture::canvas::Canvas;

/// The width of a picture, and its margin.
pub const WIDTH: f64 = 1000.0;
pub const MARGIN: f64 = 24.0;

/// The drawing of a network.
pub trait NetworkFigure {
    /// Its height; it is as wide as the picture without its margins.
    fn height(&self) -> f64;

    /// Draws it, its left upper corner at the place.
    fn draw(&self, canvas: &mut dyn Canvas, at: (f64, f64));

    /// A sentence about what it shows, and how it is summarised.
    fn about(&self) -> String;
}
