package config

import "fmt"

// wordProblem returns why a value is not a single text.
func wordProblem(v value) string {
	switch {
	case v.unsupported != "":
		return v.unsupported
	case v.list:
		return "is a list"
	case v.text == "":
		return "is empty"
	}
	return ""
}

func words[T ~string](known []T) []string {
	words := make([]string, len(known))
	for i, word := range known {
		words[i] = string(word)
	}
	return words
}

// unknownWord says that a word is not known, and which one was likely meant.
func unknownWord(word, what string, known []string) string {
	if meant := closest(word, known); meant != "" {
		return fmt.Sprintf("is not %s (did you mean %s?)", what, meant)
	}
	return "is not " + what
}
