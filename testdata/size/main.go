// Command size is a small host: it asks a model over HTTP and runs the command that it answers. Built with a tag, it is
// the same program with one guard, so that a test can measure what the guard adds.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"time"
)

// What a guard replaces.
var (
	transport = http.DefaultTransport
	run       = func(_ context.Context, cmd *exec.Cmd) error { return cmd.Run() }
	guard     = func(ctx context.Context) (context.Context, func()) { return ctx, func() {} }
	step      = func(_, _ string) error { return nil }
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	ctx, end := guard(ctx)
	defer end()
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, nil)))
	for {
		if err := turn(ctx); err != nil {
			slog.Error("turn failed", "error", err, "cause", context.Cause(ctx))
			os.Exit(1)
		}
	}
}

var plain = regexp.MustCompile(`^[a-z]+$`)

func turn(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, os.Getenv("MODEL"), nil)
	if err != nil {
		return fmt.Errorf("ask: %w", err)
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return fmt.Errorf("ask: %w", err)
	}
	defer resp.Body.Close()
	var answer struct{ Command string }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || !plain.MatchString(answer.Command) {
		return fmt.Errorf("read the answer: %w", err)
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, answer.Command)
	cmd.Stdout = &out
	var exit *exec.ExitError
	if err := run(ctx, cmd); err != nil && !errors.As(err, &exit) {
		return fmt.Errorf("run: %w", err)
	}
	return step(answer.Command, out.String())
}
