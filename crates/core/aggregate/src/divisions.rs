//! The divisions that strategies ask for, each made once: strategies of one shape share it, which is most of the work where
//! ranks have many extents.

use std::rc::Rc;

use crate::case::Case;
use crate::division::{Division, Shape};
use crate::error::PlanError;

/// Divisions of one case.
#[derive(Debug)]
pub struct Divisions<'c> {
    /// The case.
    pub case: &'c Case,
    made: Vec<(Shape, Rc<Division>)>,
}

impl<'c> Divisions<'c> {
    /// None is made.
    #[must_use]
    pub fn new(case: &'c Case) -> Self {
        Self { case, made: vec![] }
    }

    /// The division of a shape.
    ///
    /// # Errors
    /// `PlanError` if it has too many parts.
    pub fn of(&mut self, shape: Shape) -> Result<Rc<Division>, PlanError> {
        if let Some((_, division)) = self.made.iter().find(|(made, _)| *made == shape) {
            return Ok(Rc::clone(division));
        }
        let division = Rc::new(Division::new(self.case, shape)?);
        self.made.push((shape, Rc::clone(&division)));
        Ok(division)
    }
}
