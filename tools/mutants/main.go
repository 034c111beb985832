// Mutants draws mutants of a package from the list of gremlins, by a seed, and runs tests against each. `make mutants`
// calls it:
//
//	go run ./mutants -gremlins ../bin/gremlins ../sweep . ../internal/sim
//
// The first argument is the folder of the package, the others are what the go command shall test there, one after the
// other until a mutant is killed; "." if there is none. A mutant that times out is not killed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/seed62658d38/watchdog/tools/internal/mutants"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	gremlins := flag.String("gremlins", "gremlins", "the program")
	n := flag.Int("n", 60, "how many to draw")
	seed := flag.Uint64("seed", 29, "what to draw them by")
	timeout := flag.Duration("timeout", 5*time.Minute, "how long to test one")
	flag.Parse()
	if flag.NArg() == 0 {
		return errors.New("usage: mutants [flags] FOLDER [PACKAGES TO TEST]")
	}
	program, err := filepath.Abs(*gremlins)
	if err != nil {
		return err
	}
	list, err := mutants.List(ctx, program, flag.Arg(0))
	if err != nil {
		return err
	}
	tests := flag.Args()[1:]
	if len(tests) == 0 {
		tests = []string{"."}
	}
	return mutants.Hunt(ctx, os.Stdout, mutants.Draw(list, *n, *seed), flag.Arg(0), tests, *timeout)
}
