// Package redact_test shows how a host keeps the end of a command's output without credentials: the library has no
// patterns of its own, because a detector that is kept up to date is another project's work. Here it is gitleaks, in a
// module that no host requires.
package redact_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/zricethezav/gitleaks/v8/detect"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
)

// The end of what a command printed is kept without what gitleaks takes for a credential. It is a net and no proof:
// replace what is known to be secret, such as a variable of the command, in the same func.
func Example() {
	detector, err := detect.NewDetectorDefaultConfig() // some 220 patterns; it takes some tens of milliseconds
	if err != nil {
		panic(err)
	}
	redact := func(text []byte) []byte {
		for _, found := range detector.DetectBytes(text) {
			text = bytes.ReplaceAll(text, []byte(found.Secret), []byte("[REDACTED:"+found.RuleID+"]"))
		}
		return text
	}

	token, folder := "gh"+"p_0aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1eF3hJ", filepath.Join(os.TempDir(), "example-redact")
	defer os.RemoveAll(folder)
	cmd := exec.Command("sh", "-c", "echo remote: token "+token+" was refused >&2; sleep 60")
	_, err = stall.Run(context.Background(), cmd, stall.Config{
		Step: "push", NoOutput: time.Second, Store: &watchdog.Memory{}, Artifacts: folder,
		Tail: &stall.Tail{Bytes: 64 << 10, Redact: redact},
	})
	fmt.Println(errors.Is(err, watchdog.CommandNoOutput))
	tail, err := os.ReadFile(filepath.Join(folder, "push", "_stall", "stderr.tail.log"))
	if err != nil {
		panic(err)
	}
	fmt.Print(string(tail))
	// Output:
	// true
	// remote: token [REDACTED:github-pat] was refused
}
