package config

import (
	"encoding/json"
)

// Schema returns a JSON schema (draft 7) of a file, for editors: our blocks with every key, what it is for, what is
// allowed and the default, and the stall blocks of a workflow. It says less than [Parse], which also compares settings
// with each other; what a schema refuses in our blocks, Parse refuses, too.
func Schema() []byte {
	ofSteps := map[string]any{"$ref": "#/definitions/stall"}
	stall := map[string]any{"properties": map[string]any{stallBlock: ofSteps}}
	check := map[string]any{"properties": map[string]any{
		stallBlock: ofSteps, "decision_file": stepKeys.schema(decisionPath),
	}}
	step := map[string]any{"properties": map[string]any{stallBlock: ofSteps, checkBlock: check}}
	blocks := map[string]any{
		defaultsBlock: stall, checkBlock: check, stepsBlock: map[string]any{"additionalProperties": step, "items": step},
	}
	for _, block := range blockNames {
		blocks[block] = allKeys.schema(block)
	}
	text, err := json.MarshalIndent(map[string]any{
		"$schema": "http://json-schema.org/draft-07/schema#", "title": "Limits of runs, commands and sessions",
		"type": []string{"object", "null"}, "properties": blocks,
		"definitions": map[string]any{stallBlock: stepKeys.schema(stallBlock)},
	}, "", " ")
	if err != nil {
		panic(err) // a table that cannot be written is a mistake in the code
	}
	return append(text, '\n')
}

// schema returns the schema of a path: of a setting, of a block, or of what is either. Null is absent.
func (t table) schema(path string) map[string]any {
	forms := []any{map[string]any{"type": "null"}}
	k := t.key(path)
	if k.path != "" {
		forms = append(forms, json.RawMessage(k.kind.schema))
	}
	if path == scopesPath {
		forms[1] = map[string]any{"type": "array", "maxItems": maxFew, "items": t.block(path)}
	} else if t.isBlock(path) {
		forms = append(forms, t.block(path))
	}
	if k.path == "" {
		return map[string]any{"anyOf": forms}
	}
	return map[string]any{
		"anyOf":       forms,
		"description": k.help + " Allowed: " + k.allowed + ". Default: " + k.show(&Config{}) + ".",
	}
}

// block returns the schema of the keys of a block.
func (t table) block(path string) map[string]any {
	inner := map[string]any{}
	for _, name := range t.accepted(path) {
		inner[name] = t.schema(path + "." + name)
	}
	return map[string]any{"type": "object", "additionalProperties": false, "properties": inner}
}
