//go:build race

package stall_test

const underRace = true
