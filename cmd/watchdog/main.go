// Watchdog runs commands under the stall sentinel, and shows, sweeps and resumes the sessions that are kept in a
// database. watchdog --help lists its commands.
package main

import (
	"context"
	"os"

	"github.com/seed62658d38/watchdog/internal/proctree"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "run" {
		proctree.Prepare() // it starts while the command line is read and the store is opened
	}
	os.Exit(Program{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}.Run(context.Background(), os.Args[1:]))
}
