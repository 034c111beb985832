// Release prepares and proves a release of the modules that go.work names. The Makefile calls it:
//
//	go run ./release -root .. version v0.2.0   set the version in every module, print the tags to make
//	go run ./release -root .. build            compile and vet each module without go.work
//	go run ./release -root .. tidy             run go mod tidy in each module
//	go run ./release -root .. tidy -diff       print what tidy would change, and fail if that is anything
//	go run ./release -root .. check            use each module as its users will
//
// All but version work on a copy of the checkout: the files that git tracks, and those that it does not ignore. They
// serve the modules from zips of that copy, so the version need not exist anywhere. Only version and tidy write to the
// checkout, and only to go.mod, go.sum and go.work. The module cache of the user stays as it is.
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
	"syscall"

	"github.com/seed62658d38/watchdog/tools/internal/release"
)

var errUsage = errors.New("usage: release [-root dir] version VERSION | build | tidy [-diff] | check")

// A git hook sets these. They would make git use the repository of the checkout where the copy is meant.
var ofHooks = []string{
	"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_PREFIX",
}

func main() {
	for _, name := range ofHooks {
		_ = os.Unsetenv(name)
	}
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
	if flags.Arg(0) == "version" && flags.NArg() == 2 {
		return setVersion(*root, flags.Arg(1))
	}
	return prove(ctx, *root, flags.Args())
}

// setVersion prints only the tags to stdout, so that a loop can read them.
func setVersion(root, version string) error {
	modules, err := release.Open(root)
	if err != nil {
		return err
	}
	if err := modules.SetVersion(version); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "Set %s in every module. After the commit, make these tags in this order:\n", version)
	for _, tag := range modules.Tags(version) {
		fmt.Println(tag)
	}
	return nil
}

// prove runs a command that needs a copy of the checkout.
func prove(ctx context.Context, root string, args []string) (err error) {
	files, err := release.NewCopy(ctx, root, os.Stdout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, files.Close()) }()
	switch {
	case len(args) == 1 && args[0] == "build":
		return files.Build(ctx)
	case len(args) == 1 && args[0] == "tidy":
		return files.Tidy(ctx)
	case len(args) == 2 && args[0] == "tidy" && args[1] == "-diff":
		return files.TidyDiff(ctx)
	case len(args) == 1 && args[0] == "check":
		return files.Check(ctx)
	}
	return errUsage
}
