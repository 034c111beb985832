// Package rpn calculates in reverse Polish notation: "3 4 + 2 *" is 14. It is what the example autosession plans,
// builds, vets and tests.
//
// It calculates with whole numbers only and keeps no state between expressions.
package rpn
