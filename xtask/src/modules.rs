//! The modules of a crate, and which of them imports which.
//!
//! A module is a file (what stands in it between braces belongs to it). It imports the module in which something is
//! defined that it names by a path: in a `use`, or in the code itself. Re-exports are followed to where the thing is, so
//! that naming `crate::Thing` imports the module of `Thing` and not the root that passes it on. `mod x;` imports nothing,
//! and neither does going through a module on the way to another.
//!
//! Methods have no path, and one type spread over many files would escape. So a module also imports the one in which a
//! method stands that it calls on `self`, when both have an `impl` block of one type.
//!
//! Output of macros is not seen, tests are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::paths::{Imported, imported, mentioned};
use crate::source::{Source, words};
use crate::tree::{File, Tree};

/// Re-exports that lead to re-exports are followed so far; more are a circle of them.
const RE_EXPORTS_MAX: usize = 8;

/// A module of a crate.
pub struct Module<'a> {
    /// Its file.
    pub path: &'a str,
    /// `root`, or its path from there: `a::b`.
    pub name: String,
    source: &'a Source,
    pub parent: Option<usize>,
    children: BTreeMap<&'a str, usize>,
    imports: Vec<Imported>,
    items: BTreeSet<&'a str>,
    impls: Vec<Impl<'a>>,
}

/// A block of methods of a type.
struct Impl<'a> {
    /// The type as it is named there.
    of: Vec<String>,
    body: Range<usize>,
    methods: BTreeSet<&'a str>,
}

/// The modules that a module imports, and the line of the first import of each.
pub type Edges = BTreeMap<usize, usize>;

/// The modules of one crate. The first is its root.
pub struct Modules<'a>(pub Vec<Module<'a>>);

/// The roots of all crates: libraries, commands, examples.
pub fn roots(tree: &Tree) -> impl Iterator<Item = &File> {
    let is_root = |file: &&File| {
        let parts: Vec<&str> = file.path.rsplit('/').collect();
        let is_rust = parts[0].ends_with(".rs");
        let is_bin = matches!(parts[..], [_, "bin" | "examples", ..] | ["main.rs", _, "bin" | "examples", ..]);
        let is_plain = matches!(parts[..], ["lib.rs" | "main.rs", "src", ..]);
        is_rust && !file.is_test() && (is_bin || is_plain)
    };
    tree.files.iter().filter(is_root)
}

impl<'a> Modules<'a> {
    /// The modules of the crate whose root is `root`.
    pub fn of(tree: &'a Tree, root: &'a File) -> Self {
        let mut modules = Self(vec![]);
        modules.add(tree, root, None, "root".to_owned());
        modules
    }

    fn add(&mut self, tree: &'a Tree, file: &'a File, parent: Option<usize>, name: String) -> Option<usize> {
        let source = file.source.as_ref()?;
        let imports = imported(&source.code).into_iter().filter(|each| is_product(source, each.at)).collect();
        let items = source.items().into_iter().map(|item| item.name).collect();
        let module = Module {
            path: &file.path,
            name: name.clone(),
            source,
            parent,
            children: BTreeMap::new(),
            imports,
            items,
            impls: impls(source),
        };
        let index = self.0.len();
        self.0.push(module);
        let folder = folder(&file.path, parent.is_none());
        for child in declared(source) {
            let paths = [format!("{folder}/{child}.rs"), format!("{folder}/{child}/mod.rs")];
            let Some(file) = paths.iter().find_map(|path| tree.get(path)).filter(|file| !file.is_test()) else {
                continue;
            };
            let full = if parent.is_some() { format!("{name}::{child}") } else { child.to_owned() };
            if let Some(added) = self.add(tree, file, Some(index), full) {
                self.0[index].children.insert(child, added);
            }
        }
        Some(index)
    }

    /// The imports of each module.
    pub fn edges(&self) -> Vec<Edges> {
        (0..self.0.len()).map(|from| self.edges_from(from)).collect()
    }

    fn edges_from(&self, from: usize) -> Edges {
        let module = &self.0[from];
        let mentioned = mentioned(&module.source.code);
        let named =
            mentioned.iter().filter(|each| is_product(module.source, each.at)).map(|each| (each.at, &each.path));
        let imported = module.imports.iter().map(|each| (each.at, &each.path));
        let mut edges = Edges::new();
        let mut add = |at: usize, to: Option<usize>| {
            if let Some(to) = to.filter(|to| *to != from) {
                let line = module.source.line_of(at);
                edges.entry(to).and_modify(|first: &mut usize| *first = line.min(*first)).or_insert(line);
            }
        };
        for (at, path) in imported.chain(named) {
            add(at, self.definer(from, path, RE_EXPORTS_MAX));
        }
        for (at, to) in self.methods_called(from) {
            add(at, Some(to));
        }
        edges
    }

    /// The module that defines what `path` names in `from`; none for what is of another crate.
    fn definer(&self, from: usize, path: &[String], re_exports: usize) -> Option<usize> {
        let (first, mut rest) = path.split_first()?;
        let mut at = match first.as_str() {
            "crate" | "$crate" => 0,
            "self" => from,
            "super" => self.0[from].parent?,
            name => return self.definer_in(from, name, rest, re_exports).filter(|_| self.is_ours(from, name)),
        };
        while let Some((name, after)) = rest.split_first() {
            if name != "super" {
                return self.definer_in(at, name, after, re_exports);
            }
            (at, rest) = (self.0[at].parent?, after);
        }
        Some(at)
    }

    /// Whether a path that begins with `name` in `module` stays in the crate.
    fn is_ours(&self, module: usize, name: &str) -> bool {
        self.0[module].children.contains_key(name) || self.0[module].imports.iter().any(|each| each.name == name)
    }

    /// The module that defines `name`, or what `rest` names in it, where `at` has it or passes it on.
    fn definer_in(&self, at: usize, name: &str, rest: &[String], re_exports: usize) -> Option<usize> {
        let module = &self.0[at];
        if let Some(child) = module.children.get(name) {
            return match rest.split_first() {
                Some((name, rest)) => self.definer_in(*child, name, rest, re_exports),
                None => Some(*child),
            };
        }
        let left = re_exports.checked_sub(1)?;
        if let Some(passed) = module.imports.iter().find(|each| each.name == name && name != "*") {
            let path: Vec<String> = passed.path.iter().chain(rest).cloned().collect();
            return if passed.path[0] == name { None } else { self.definer(at, &path, left) };
        }
        let everything = module.imports.iter().filter(|each| each.name == "*");
        let of_glob = |each: &Imported| self.definer(at, &each.path[..each.path.len() - 1], left);
        let has = |to: &usize| self.0[*to].items.contains(name) || self.0[*to].children.contains_key(name);
        if name == "*" || module.items.contains(name) {
            return Some(at);
        }
        everything.filter_map(of_glob).find(|to| *to != at && has(to)).or(Some(at))
    }

    /// Where methods stand that `from` calls on `self` and that other modules define for the same type.
    fn methods_called(&self, from: usize) -> Vec<(usize, usize)> {
        let module = &self.0[from];
        let mut called = vec![];
        for block in &module.impls {
            let Some(of) = self.type_of(from, block) else { continue };
            for (at, name) in calls_on_self(&module.source.code, &block.body) {
                let defines = |other: usize| {
                    let mut blocks = self.0[other].impls.iter();
                    blocks.any(|each| each.methods.contains(name) && self.type_of(other, each) == Some(of))
                };
                called.extend((0..self.0.len()).find(|other| defines(*other)).map(|to| (at, to)));
            }
        }
        called
    }

    /// The type of a block: where it is defined, and its name there.
    fn type_of<'b>(&'b self, module: usize, block: &'b Impl<'_>) -> Option<(usize, &'b str)> {
        let (name, path) = (block.of.last()?, &block.of);
        let imported = self.0[module].imports.iter().find(|each| path.len() == 1 && each.name == *name);
        let path = imported.map_or(path, |each| &each.path);
        let definer = if path.len() == 1 { Some(module) } else { self.definer(module, path, RE_EXPORTS_MAX) };
        Some((definer?, path.last()?.as_str()))
    }
}

fn is_product(source: &Source, at: usize) -> bool {
    !source.in_test(at) && !source.in_macro(at)
}

/// The folder in which the children of a file's module lie.
fn folder(path: &str, is_root: bool) -> &str {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    if is_root || file == "mod.rs" { folder } else { path.trim_end_matches(".rs") }
}

/// The names of the modules that have files of their own.
fn declared(source: &Source) -> Vec<&str> {
    let code = &source.code;
    let words: Vec<(usize, &str)> = words(code).filter(|&(at, _)| !source.in_test(at)).collect();
    let is_declared = |pair: &&[(usize, &str)]| {
        let (at, name) = pair[1];
        pair[0].1 == "mod" && code[at + name.len()..].trim_start().starts_with(';')
    };
    words.windows(2).filter(is_declared).map(|pair| pair[1].1).collect()
}

/// The blocks of methods of a file; those of traits are left out.
fn impls(source: &Source) -> Vec<Impl<'_>> {
    let code = &source.code;
    let begins = |at: usize| code[..at].trim_end().chars().next_back().is_none_or(|before| "};]".contains(before));
    let starts = words(code).filter(|&(at, word)| word == "impl" && begins(at) && !source.in_test(at));
    starts.filter_map(|(at, word)| impl_at(source, at + word.len())).collect()
}

fn impl_at(source: &Source, at: usize) -> Option<Impl<'_>> {
    let code = &source.code;
    let open = at + code[at..].find('{')?;
    let header = code[at..open].split(" where ").next()?.split("\nwhere").next()?;
    let bare = without_generics(header);
    let named: Vec<&str> = words(&bare).map(|(_, word)| word).collect();
    if named.contains(&"for") {
        return None;
    }
    let of = named.into_iter().map(str::to_owned).collect();
    let body = open..source.item_end(at).0 + 1;
    let inside: Vec<&str> = words(&code[body.clone()]).map(|(_, word)| word).collect();
    let methods = inside.windows(2).filter(|pair| pair[0] == "fn").map(|pair| pair[1]).collect();
    Some(Impl { of, body, methods })
}

/// The text without what stands between angle brackets.
fn without_generics(text: &str) -> String {
    let mut depth = 0usize;
    let text = text.replace("->", "");
    let outside = |c: &char| {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ => return depth == 0,
        }
        false
    };
    text.chars().filter(outside).collect()
}

/// Methods that a block calls on its own type, by `self.` or `Self::`.
fn calls_on_self<'a>(code: &'a str, body: &Range<usize>) -> Vec<(usize, &'a str)> {
    let inside: Vec<(usize, &str)> = words(&code[body.clone()]).map(|(at, word)| (at + body.start, word)).collect();
    let is_call = |pair: &[(usize, &str)]| {
        let [(at, owner), (next, name)] = [pair[0], pair[1]];
        let between = code[at + owner.len()..next].trim();
        let after = code[next + name.len()..].trim_start();
        let is_own = matches!((owner, between), ("self", ".") | ("Self", "::"));
        is_own && (after.starts_with('(') || after.starts_with("::<"))
    };
    inside.windows(2).filter(|pair| is_call(pair)).map(|pair| pair[1]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The imports among a crate's modules: `from > to`.
    fn imports(files: &[(&str, &str)]) -> Vec<String> {
        let tree = Tree::made_of(files);
        let root = roots(&tree).next().unwrap();
        let modules = Modules::of(&tree, root);
        let mut found = vec![];
        for (from, edges) in modules.edges().iter().enumerate() {
            found.extend(edges.keys().map(|to| format!("{} > {}", modules.0[from].name, modules.0[*to].name)));
        }
        found
    }

    const ROOT: &str = "x/src/lib.rs";

    #[test]
    fn paths_lead_to_where_things_are_defined() {
        let files = [
            (ROOT, "mod a;\nmod b;\npub use a::{Thing, inner};"),
            ("x/src/a/mod.rs", "pub mod inner;\npub struct Thing;\nfn f() { inner::g(); }"),
            ("x/src/a/inner.rs", "use super::Thing;\nuse std::fmt;\npub fn g() {}"),
            ("x/src/b.rs", "use crate::Thing;\nfn h() { crate::inner::g(); std::mem::drop(1); }"),
        ];
        let found = imports(&files);
        assert_eq!(found, ["root > a", "root > a::inner", "a > a::inner", "a::inner > a", "b > a", "b > a::inner"]);
    }

    #[test]
    fn declaring_and_testing_import_nothing() {
        let files = [
            (ROOT, "mod a;\nmod b;\n#[cfg(test)]\nmod tests;"),
            ("x/src/a.rs", "#[cfg(test)]\nmod tests { use crate::b::B; }"),
            ("x/src/b.rs", "// crate::a\npub struct B { a: &'static str }"),
            ("x/src/tests.rs", "use crate::a;"),
        ];
        assert!(imports(&files).is_empty());
    }

    #[test]
    fn modules_may_be_imported_whole() {
        let files = [
            (ROOT, "mod a;\nmod b;\nmod c;"),
            ("x/src/a.rs", "use super::b;\nfn f() { b::g() }"),
            ("x/src/b.rs", "use crate::c::*;\npub fn g() {}"),
            ("x/src/c.rs", "pub struct C;"),
        ];
        assert_eq!(imports(&files), ["a > b", "b > c"]);
    }

    #[test]
    fn methods_spread_over_files_are_imported_where_they_are_called() {
        let files = [
            (ROOT, "mod a;\npub struct T;\nimpl T { fn f(&self) { self.g(); } }"),
            (
                "x/src/a.rs",
                "use crate::T as U;\nimpl<'a> U where u8: Copy { fn g(&self) { self.h(); } fn h(&self) {} }",
            ),
        ];
        assert_eq!(imports(&files), ["root > a", "a > root"]);
        let others = [
            (
                ROOT,
                "mod a;\npub struct T;\nimpl T { fn f(&self) { self.g; other.g(); } }\nimpl Tr for T { fn x(&self) {} }",
            ),
            ("x/src/a.rs", "use crate::T;\nimpl T { fn g(&self) { self.x() } }"),
        ];
        assert_eq!(imports(&others), ["a > root"]);
    }

    #[test]
    fn commands_and_examples_are_crates_too() {
        let paths = ["x/src/bin/a.rs", "x/src/bin/b/main.rs", "x/src/bin/b/c.rs", "x/examples/d.rs", "x/tests/e.rs"];
        let tree = Tree::made_of(&paths.map(|path| (path, "")));
        let found: Vec<&str> = roots(&tree).map(|file| file.path.as_str()).collect();
        assert_eq!(found, ["x/src/bin/a.rs", "x/src/bin/b/main.rs", "x/examples/d.rs"]);
    }
}
