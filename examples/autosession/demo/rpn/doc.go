// Package rpn calculates in reverse Polish notation: "3 4 + 2 *" is 14. It is the project on which the example
// autosession runs its phases.
//
// It handles whole numbers only and keeps no state between expressions.
package rpn
