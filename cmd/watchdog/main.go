// Watchdog runs commands under the stall sentinel, and shows, sweeps and resumes the sessions that are kept in a
// database. watchdog --help lists its commands.
package main

import (
	"context"
	"os"

	_ "github.com/seed62658d38/watchdog/cmd/watchdog/internal/early" // starts the guard of a run
)

func main() {
	os.Exit(Program{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}.Run(context.Background(), os.Args[1:]))
}
