package config

import "fmt"

// wordProblem says why a value is not a text by itself.
func wordProblem(v value) string {
	switch {
	case v.odd != "":
		return v.odd
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

// unknownWord says that a word is none of those there are, and which was most likely meant.
func unknownWord(word, what string, known []string) string {
	if meant := near(word, known); meant != "" {
		return fmt.Sprintf("is not %s (did you mean %s?)", what, meant)
	}
	return "is not " + what
}
