"""Real Apache Kafka clusters on this machine: what scripts/clusters is made of.

basics (failures, files, ports) <- protocol (a little of Kafka's) and release (jars of one version)
<- cluster (nodes as processes).
"""
