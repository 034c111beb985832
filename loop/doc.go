// Package loop says when an agent repeats itself: it does the same and gets the same, again and again.
package loop
