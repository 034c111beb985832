//go:build race

package redact_test

// racing is [racing.Enabled] of the main module, which this one does not require.
const racing = true
