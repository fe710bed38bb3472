/**
 * One transaction over several Apache Kafka clusters: all of them, or none.
 *
 * <p>{@link dev.lockstep.client.LockstepClient} is the way in. Records either go through the server
 * ({@link dev.lockstep.client.Transaction#produce}), or through a producer of your own ({@link
 * dev.lockstep.client.EnlistedProducer}), which needs kafka-clients, 3.9 or later, on the class
 * path; nothing else here does, but {@link dev.lockstep.client.KafkaTypes}.
 */
package dev.lockstep.client;
