//go:build !race

package redact_test

// racing says whether the race detector is on. The main module has it in internal/racing; this one does not require that.
const racing = false
