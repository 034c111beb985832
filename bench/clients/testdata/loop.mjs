// What the programs have in common: a model that wants to look at a number gets it, until it wants nothing more.
export const [, , kind = 'stream', system = '', prompt = ''] = process.argv
export const streamed = kind === 'stream'
export const look = {
  name: 'look',
  description: 'Look at a number.',
  schema: {type: 'object', properties: {number: {type: 'integer', description: 'Which one.'}}, required: ['number']},
  run: ({number}) => `the number ${number} is ${number * 7}`,
}

// Every request is counted, also those that the SDK makes again.
let made = 0
const fetched = globalThis.fetch
globalThis.fetch = (...args) => (made++, fetched(...args))

export async function loop(turn) {
  try {
    for (;;) {
      const text = await turn()
      if (text !== undefined) {
        console.log(text)
        break
      }
    }
  } catch (err) {
    console.error(String(err))
    process.exitCode = 1
  }
  console.log(`made ${made}`)
}
