// Plays one scenario with central-services-stream, the published library of the reference, and
// writes the measured figures to a file. `upesi-bench stream --against reference` starts it in the
// directory that has the packages. Argument 1: the scenario as JSON; argument 2: the result's path.
'use strict'

const fs = require('node:fs')
const protobuf = require('protobufjs')
const { Kafka: { Consumer, Producer } } = require('@mojaloop/central-services-stream')

const scenario = JSON.parse(process.argv[2])
const { brokers, topic, seconds } = scenario
/** Messages before the measured part, which open the connections. */
const FIRST = 1
/** A consumer that has not read everything after this time has lost messages. */
const PATIENCE_MS = 30_000

/** Latencies in microseconds. */
const percentile = (times, part) => {
  const sorted = Float64Array.from(times).sort()
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0
}

class Meter {
  constructor () {
    this.start = process.hrtime.bigint()
    this.cpu = process.cpuUsage()
    this.times = []
  }

  add (since) {
    this.times.push(Number(process.hrtime.bigint() - since) / 1e3)
  }

  side (messages) {
    const elapsed = Number(process.hrtime.bigint() - this.start) / 1e9
    const { user, system } = process.cpuUsage(this.cpu)
    return {
      messages,
      per_s: messages / elapsed,
      cpu_us: (user + system) / Math.max(messages, 1),
      p50_us: percentile(this.times, 0.5),
      p99_us: percentile(this.times, 0.99),
      p999_us: percentile(this.times, 0.999)
    }
  }
}

const id = number => `b51ec534-ee48-4575-b6a9-${String(number).padStart(12, '0')}`

const Audit = new protobuf.Type('Audit')
  .add(new protobuf.Field('id', 1, 'string'))
  .add(new protobuf.Field('from', 2, 'string'))
  .add(new protobuf.Field('to', 3, 'string'))
  .add(new protobuf.Field('action', 4, 'string'))
  .add(new protobuf.Field('content', 5, 'string'))
new protobuf.Root().define('audit').add(Audit)

/** Options of both clients for the payload. */
const coding = scenario.protobuf
  ? {
      serializeFn: ({ id, from, to, content, metadata }) => Buffer.from(Audit.encode({
        id, from, to, action: metadata.event.action, content: JSON.stringify(content)
      }).finish()),
      deserializeFn: buffer => Audit.decode(buffer)
    }
  : {}

const send = async () => {
  const producer = new Producer({
    options: {
      pollIntervalMs: scenario.poll_ms,
      messageCharset: 'utf8',
      sync: scenario.depth > 0,
      ...coding
    },
    rdkafkaConf: {
      'metadata.broker.list': brokers,
      'client.id': 'reference',
      event_cb: true,
      dr_cb: true,
      'compression.codec': scenario.lz4 ? 'lz4' : 'none',
      'retry.backoff.ms': 100,
      'message.send.max.retries': 2,
      'socket.keepalive.enable': true,
      'queue.buffering.max.messages': 100_000,
      'queue.buffering.max.ms': scenario.linger_ms,
      'batch.num.messages': 100,
      'api.version.request': true
    },
    topicConf: { 'request.required.acks': -1, partitioner: 'murmur2_random' }
  })
  await producer.connect()
  const one = number => producer.sendMessage(
    { ...scenario.samples[number % 2], id: id(number) }, { topicName: topic, key: id(number) })
  for (let number = 0; number < FIRST; number++) await one(number)
  const meter = new Meter()
  const end = meter.start + BigInt(Math.round(seconds * 1e9))
  let sent = FIRST
  let refused = 0
  const isOver = () => scenario.messages === null
    ? process.hrtime.bigint() >= end
    : sent - refused >= FIRST + scenario.messages
  const worker = async () => {
    while (!isOver()) {
      const number = sent++
      const since = process.hrtime.bigint()
      try {
        await one(number)
      } catch (error) {
        // "Local: Queue full": the library refuses instead of waiting.
        refused += 1
        await new Promise(resolve => setTimeout(resolve, 1))
      }
      meter.add(since)
    }
  }
  await Promise.all(Array.from({ length: Math.max(1, scenario.depth) }, worker))
  await new Promise(resolve => producer._producer.flush(60_000, resolve))
  const side = meter.side(sent - FIRST - refused)
  await new Promise(resolve => producer.disconnect(resolve))
  return { side, sent: sent - refused, refused }
}

const read = async sent => {
  const consumer = new Consumer([topic], {
    options: {
      mode: scenario.mode,
      batchSize: scenario.batch,
      pollFrequency: 10,
      recursiveTimeout: scenario.recursive_ms,
      consumeTimeout: scenario.consume_ms,
      messageCharset: 'utf8',
      messageAsJSON: true,
      sync: scenario.sync,
      syncConcurrency: scenario.concurrency,
      syncSingleMessage: scenario.single,
      ...coding
    },
    rdkafkaConf: {
      'client.id': 'reference',
      'group.id': `reference-of-${topic}`,
      'metadata.broker.list': brokers,
      'socket.keepalive.enable': true,
      'enable.auto.commit': scenario.commit === 'auto',
      'auto.commit.interval.ms': 100,
      'partition.assignment.strategy': scenario.strategy,
      ...(scenario.single ? { 'fetch.wait.max.ms': 0 } : {})
    },
    topicConf: { 'auto.offset.reset': 'earliest' }
  })
  await consumer.connect()
  let meter = null
  let last = 0n
  let count = 0
  const seen = new Set()
  let finish
  const finished = new Promise(resolve => { finish = resolve })
  const stall = setTimeout(() => finish(), 2000 * seconds + PATIENCE_MS)
  consumer.consume(async (error, payload) => {
    if (error) throw error
    for (const message of Array.isArray(payload) ? payload : [payload]) {
      if (meter === null) meter = new Meter()
      else meter.add(last)
      last = process.hrtime.bigint()
      count += 1
      seen.add(message.value.id)
      if (scenario.commit === 'sync') consumer.commitMessageSync(message)
      if (scenario.commit === 'async') consumer.commitMessage(message)
      const elapsed = Number(last - meter.start) / 1e9
      if (count >= sent || elapsed > 2 * seconds) finish()
    }
  })
  await finished
  clearTimeout(stall)
  const side = (meter ?? new Meter()).side(count)
  const repeated = count - seen.size
  await Promise.race([
    new Promise(resolve => consumer.disconnect(resolve)),
    new Promise(resolve => setTimeout(resolve, 5000))
  ])
  return { side, repeated }
}

const main = async () => {
  const { side: producer, sent, refused } = await send()
  const { side: consumer, repeated } = await read(sent)
  fs.writeFileSync(process.argv[3], JSON.stringify({ producer, consumer, repeated, refused }))
  process.exit(0)
}

main().catch(error => {
  console.error(error)
  process.exit(1)
})
