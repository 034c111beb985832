package usage

import (
	"cmp"
	"slices"
)

// The tables of Gemini. Its maximum of output has been seen to hold thoughts too, though the documentation has said
// both, so that a budget of thoughts that the request names is counted on top.
var (
	geminiBody, geminiConfig, geminiThinking, geminiTurn, geminiParts object
	geminiResponseFields, geminiResponsePart, geminiBlobFields        object
)

func makeGemini() {
	geminiThinking = object{
		"includeThoughts": text,
		"thinkingLevel":   text,
		"thinkingBudget": func(r *request, v value) {
			text(r, v)
			if n, ok := v.number(); ok { // -1 leaves it to the model
				r.call.extraOutput = n
			}
		},
	}
	geminiConfig = fields(text, `
		responseMimeType responseSchema responseJsonSchema responseFormat responseModalities mediaResolution
		speechConfig audioTimestamp imageConfig enableEnhancedCivicAnswers enableAffectiveDialog
		audioTranscriptionConfig translationConfig routingConfig modelSelectionConfig
	`).with(fields(free, `
		temperature topP topK stopSequences responseLogprobs logprobs presencePenalty frequencyPenalty seed
		generationOutputConfig
	`)).with(object{
		"maxOutputTokens": maxOutput,
		"candidateCount":  candidates,
		"thinkingConfig":  inside(geminiThinking),
	})
	geminiBody = fields(text, "toolConfig modelArmorConfig").
		with(fields(free, "safetySettings labels serviceTier store")).
		with(object{
			"model":             free, // the path's counts
			"contents":          geminiContents,
			"systemInstruction": head(geminiContents),
			"tools":             head(each(geminiTool)),
			"cachedContent":     refers(Reference),
			"continuationToken": refers(Reference), // of an answer that was not over
			"generationConfig":  geminiGeneration,
		})
	geminiTurn = object{"role": text, "parts": each(geminiPart)}
	geminiParts = fields(text, `
		text functionCall executableCode codeExecutionResult videoMetadata mediaResolution partMetadata toolCall
		toolResponse audioTranscription mediaProcessing speechMetadata
	`).with(object{
		"inlineData": geminiBlob, "fileData": refers(Reference), "thought": reasoning,
		"thoughtSignature": geminiSignature, "functionResponse": geminiResponse,
	})
	geminiResponsePart = object{
		"inlineData": geminiBlob, "fileData": refers(Reference), "mediaProcessing": text,
	}
	geminiResponseFields = fields(text, "id name response willContinue scheduling").with(object{
		"parts": each(func(r *request, v value) { r.object(geminiResponsePart, v) }),
	})
	geminiBlobFields = object{"mimeType": text, "displayName": text, "data": mediaData}
}

// geminiGeneration takes the object that has the maximum of output, or has one set in it.
func geminiGeneration(r *request, v value) {
	at := r.span(v)
	inside := gap{span{at.from + 1, at.from + 1}, `"maxOutputTokens":`, ","}
	switch {
	case string(v) == "null":
		r.call.gap = gap{at, `{"maxOutputTokens":`, "}"}
	case v[0] != '{':
		r.blameOutput(Malformed, "generationConfig")
	case v.isEmptyObject():
		inside.after = ""
		r.call.gap = inside
	default:
		r.call.gap = inside
		r.object(geminiConfig, v)
	}
}

// geminiContents is a field of one content, or of many.
func geminiContents(r *request, v value) {
	if v[0] == '{' {
		geminiContent(r, v)
		return
	}
	each(geminiContent)(r, v)
}

func geminiContent(r *request, v value) {
	role := cmp.Or(memberText(v, "role"), "user")
	r.message(role, func() { r.object(geminiTurn, v) })
}

func geminiPart(r *request, v value) {
	r.part(func() { r.object(geminiParts, v) })
}

func geminiSignature(r *request, v value) {
	text(r, v)
	if !v.isNothing() && !slices.Contains(geminiNoThoughts, v.text()) {
		opaque(&r.at.part)
	}
}

// geminiNoThoughts are the signatures that Google documents for what no model has signed.
var geminiNoThoughts = []string{"skip_thought_signature_validator", "context_engineering_is_the_way_to_go"}

func geminiResponse(r *request, v value) {
	result(&r.at.part)
	if !v.isNothing() {
		r.object(geminiResponseFields, v)
	}
}

// geminiBlob takes what is inline, and no text.
func geminiBlob(r *request, v value) {
	if !v.isNothing() {
		r.kind = memberText(v, "mimeType") + memberText(v, "mime_type")
		r.object(geminiBlobFields, v)
	}
}

// geminiTool takes a tool. Only declarations of functions are all in the body.
func geminiTool(r *request, v value) {
	if v[0] != '{' {
		r.unknown("tools", v)
		return
	}
	v.members(func(key string, member value) {
		switch key = camelCase(key); {
		case key == "functionDeclarations":
			each(inBody)(r, member)
		case string(member) != "null":
			r.part(func() {
				r.at.put(key, member)
				r.apiTool(key, -1)
			})
		}
	})
}
