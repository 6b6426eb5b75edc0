// Reads messages with the published library of the reference and prints each as a line of JSON.
// It is started in the directory of the packages. Arguments: brokers, topic, number of messages.
'use strict'

const { Kafka: { Consumer } } = require('@mojaloop/central-services-stream')

const [brokers, topic, wanted] = process.argv.slice(-3)

const main = async () => {
  const consumer = new Consumer([topic], {
    options: {
      mode: 2,
      batchSize: 1,
      pollFrequency: 10,
      recursiveTimeout: 100,
      messageCharset: 'utf8',
      messageAsJSON: true,
      sync: true,
      consumeTimeout: 1000
    },
    rdkafkaConf: {
      'client.id': 'reporting',
      'group.id': 'reporting',
      'metadata.broker.list': brokers,
      'enable.auto.commit': false
    },
    topicConf: { 'auto.offset.reset': 'earliest' }
  })
  await consumer.connect()
  let count = 0
  consumer.consume(async (error, payload) => {
    if (error) throw error
    for (const message of [payload].flat()) {
      console.log(JSON.stringify({ key: `${message.key}`, value: message.value }))
      consumer.commitMessageSync(message)
      count += 1
      if (count === Number(wanted)) process.exit(0)
    }
  })
}

main().catch(error => {
  console.error(error)
  process.exit(1)
})
