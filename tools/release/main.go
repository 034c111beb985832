// Release prepares and proves a release of the modules that go.work names. The Makefile calls it:
//
//	go run ./release -root .. version v0.2.0   set the version in every module, print the tags to make
//	go run ./release -root .. build            compile and vet each module without go.work
//	go run ./release -root .. tidy             run go mod tidy in each module
//	go run ./release -root .. tidy -diff       print what tidy would change, and fail if that is anything
//	go run ./release -root .. check            use each module as its users will
//
// Build and tidy replace the modules by their folders, and check serves them from zips, so the version need not exist
// anywhere. Only version and tidy write to the checkout, and only to go.mod, go.sum and go.work. No unreleased version
// gets into the module cache of the user.
//
// Release makes no tag and no commit, and uploads nothing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/seed62658d38/watchdog/tools/internal/release"
)

var errUsage = errors.New("usage: release [-root dir] version VERSION | build | tidy [-diff] | check")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	root := flags.String("root", ".", "the directory of go.work")
	if err := flags.Parse(args); err != nil {
		return err
	}
	modules, err := release.Open(*root)
	if err != nil {
		return err
	}
	switch strings.Join(flags.Args(), " ") {
	case "version " + flags.Arg(1):
		return setVersion(modules, flags.Arg(1))
	case "build":
		return modules.Build(ctx, os.Stdout)
	case "tidy":
		return modules.Tidy(ctx, os.Stdout)
	case "tidy -diff":
		return modules.TidyDiff(ctx, os.Stdout)
	case "check":
		return modules.Check(ctx, os.Stdout)
	}
	return errUsage
}

// setVersion prints only the tags to stdout, so that a loop can read them.
func setVersion(modules *release.Modules, version string) error {
	if err := modules.SetVersion(version); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "Set %s in every module. After the commit, make these tags in this order:\n", version)
	for _, tag := range modules.Tags(version) {
		fmt.Println(tag)
	}
	return nil
}
