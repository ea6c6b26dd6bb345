//! The tables of TPC-H as CSV, and what makes Parquet with the benchmark's types of it. The example `tpch` has them, too.

use std::fmt::Display;
use std::io::{self, Write};

use tpchgen::csv::{CustomerCsv, LineItemCsv, NationCsv, OrderCsv, PartCsv, PartSuppCsv, RegionCsv, SupplierCsv};
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};

/// The tables, and those of their columns that are decimals.
pub const TABLES: [(&str, &[&str]); 8] = [
    ("customer", &["c_acctbal"]),
    ("lineitem", &["l_quantity", "l_extendedprice", "l_discount", "l_tax"]),
    ("nation", &[]),
    ("orders", &["o_totalprice"]),
    ("part", &["p_retailprice"]),
    ("partsupp", &["ps_supplycost"]),
    ("region", &[]),
    ("supplier", &["s_acctbal"]),
];

/// Writes a part of a table, from 1 on, as CSV. The smallest tables are in the first part alone.
///
/// # Errors
/// It cannot be written, or there is no such table.
pub fn write_csv(table: &str, scale_factor: f64, part: i32, parts: i32, to: &mut impl Write) -> io::Result<()> {
    let (scale, few) = (scale_factor, if part == 1 { usize::MAX } else { 0 });
    match table {
        "customer" => write_rows(
            to,
            CustomerCsv::header(),
            CustomerGenerator::new(scale, part, parts).iter().map(CustomerCsv::new),
        ),
        "lineitem" => write_rows(
            to,
            LineItemCsv::header(),
            LineItemGenerator::new(scale, part, parts).iter().map(LineItemCsv::new),
        ),
        "nation" => {
            write_rows(to, NationCsv::header(), NationGenerator::default().iter().take(few).map(NationCsv::new))
        }
        "orders" => {
            write_rows(to, OrderCsv::header(), OrderGenerator::new(scale, part, parts).iter().map(OrderCsv::new))
        }
        "part" => write_rows(to, PartCsv::header(), PartGenerator::new(scale, part, parts).iter().map(PartCsv::new)),
        "partsupp" => write_rows(
            to,
            PartSuppCsv::header(),
            PartSuppGenerator::new(scale, part, parts).iter().map(PartSuppCsv::new),
        ),
        "region" => {
            write_rows(to, RegionCsv::header(), RegionGenerator::default().iter().take(few).map(RegionCsv::new))
        }
        "supplier" => write_rows(
            to,
            SupplierCsv::header(),
            SupplierGenerator::new(scale, part, parts).iter().map(SupplierCsv::new),
        ),
        _ => Err(io::Error::other(format!("no table {table}"))),
    }
}

fn write_rows(to: &mut impl Write, header: &str, rows: impl Iterator<Item = impl Display>) -> io::Result<()> {
    writeln!(to, "{header}")?;
    rows.into_iter().try_for_each(|row| writeln!(to, "{row}"))
}

/// The statement that gives the columns of `t` their types.
pub fn typed(decimals: &[&str]) -> String {
    let decimals: Vec<_> = decimals.iter().map(|name| format!("{name}::DECIMAL(15, 2) AS {name}")).collect();
    match decimals.is_empty() {
        true => "SELECT * FROM t".to_owned(),
        false => format!("SELECT * REPLACE ({}) FROM t", decimals.join(", ")),
    }
}
