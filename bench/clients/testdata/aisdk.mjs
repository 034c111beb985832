import {look, loop, prompt, streamed, system} from './loop.mjs'
import {generateText, jsonSchema, stepCountIs, streamText, tool} from 'ai'
import {anthropic} from '@ai-sdk/anthropic'
import {createGoogleGenerativeAI} from '@ai-sdk/google'
import {openai} from '@ai-sdk/openai'

// Only the one for Google reads no variable.
const google = createGoogleGenerativeAI({
  apiKey: process.env.GEMINI_API_KEY, baseURL: `${process.env.GOOGLE_GEMINI_BASE_URL}/v1beta`,
})
const model = {
  anthropic: () => anthropic('claude-opus-5-5'),
  openai: () => openai('gpt-5.1'),
  google: () => google('gemini-2.5-flash'),
}[process.env.PROVIDER]()
await loop(async () => {
  const params = {
    model, system, prompt, stopWhen: stepCountIs(1_000_000),
    tools: {look: tool({description: look.description, inputSchema: jsonSchema(look.schema), execute: look.run})},
  }
  if (!streamed) return (await generateText(params)).text
  let failed // the text of a stream does not say
  const text = await streamText({...params, onError: ({error}) => (failed = error)}).text
  if (failed) throw failed
  return text
})
