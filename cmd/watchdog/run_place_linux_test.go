//go:build linux

package main_test

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestFewDescriptors checks that the error names the limit, and not /proc, which cannot be read then.
func TestFewDescriptors(t *testing.T) {
	f := newFixture(t)
	cmd := f.cmd("", "true")
	limited := exec.Command("/bin/sh", append([]string{"-c", `ulimit -n 8; exec "$@"`, "sh"}, cmd.Args...)...)
	limited.Dir, limited.Env = cmd.Dir, cmd.Env
	o := finish(t, limited).must(t, 125)
	assert.Contains(t, o.stderr, "raise its limit (ulimit -n)")
	assert.NotContains(t, o.stderr, "mount")
}
