//! The program: reads the command line and runs it.

fn main() -> std::process::ExitCode {
    runtab::cli::run()
}
