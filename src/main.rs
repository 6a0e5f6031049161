//! The program: reads the command line and runs it.

// A request makes and frees many small pieces, often on different threads: glibc's allocator took a tenth of all time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    runtab::cli::run()
}
